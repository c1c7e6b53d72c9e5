"""Records for `produce`, from lines, JSON lines, CSV, Parquet or whole files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ...client.user_errors import Misused
from .input_record import InputForm, Record, Records, Shape, name_of, opened_input, readable
from .line_input import read_file, read_lines
from .row_input import read_csv, read_json_lines, records_of_rows

_READERS: dict[InputForm, Records] = {
    InputForm.lines: read_lines,
    InputForm.jsonl: read_json_lines,
    InputForm.csv: read_csv,
    InputForm.file: read_file,
}


def records_of(source: Path | None, stdin: BinaryIO, form: InputForm | None, shape: Shape) -> Iterator[Record]:
    """Records of a file, or of standard input for None. Raises Misused for a file that cannot be read."""
    chosen = form or _by_name(source)
    name = name_of(source)
    if chosen is InputForm.parquet:
        if source is None:
            raise Misused("Parquet cannot be read from standard input: give a file")
        from ...records.parquet import parquet_rows

        with opened_input(source), readable(name):
            yield from records_of_rows(enumerate(parquet_rows(source), 1), name, "row", shape)
    elif source is None:
        with readable(name):
            yield from _READERS[chosen](stdin, name, shape)
    else:
        with opened_input(source) as opened, readable(name):
            yield from _READERS[chosen](opened, name, shape)


def is_lines(source: Path | None, form: InputForm | None) -> bool:
    return (form or _by_name(source)) is InputForm.lines


def _by_name(source: Path | None) -> InputForm:
    known = {
        ".jsonl": InputForm.jsonl,
        ".ndjson": InputForm.jsonl,
        ".csv": InputForm.csv,
        ".parquet": InputForm.parquet,
    }
    return known.get(source.suffix.lower() if source is not None else "", InputForm.lines)
