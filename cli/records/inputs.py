"""Records for `produce`, from lines, JSON lines, CSV, Parquet or whole files."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..client.errors import CommandError, Misused
from .selection import timestamp_ms

if TYPE_CHECKING:
    from .consumed import ProducedHeaders


#: Limit of a line, and of a file that is one record. Brokers take 1 MB by default.
MOST_RECORD_BYTES = 64 << 20
#: Lines that are read at once.
_READ_BYTES = 64 << 10


class InputForm(StrEnum):
    lines = "lines"
    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"
    file = "file"


@dataclass(slots=True)
class Record:
    """`timestamp_ms` 0: the time of sending. `partition` -1: by the key."""

    value: bytes | None
    key: bytes | None = None
    headers: ProducedHeaders = field(default_factory=list)
    partition: int = -1
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """How an input becomes records. Delimiters are bytes; columns are of CSV and Parquet."""

    delimiter: bytes = b"\n"
    key_delimiter: bytes | None = None
    null_value: bytes | None = None
    key_column: str | None = None
    value_column: str | None = None


Records = Callable[[BinaryIO, str, Shape], Iterator[Record]]


def records_of(source: Path | None, stdin: BinaryIO, form: InputForm | None, shape: Shape) -> Iterator[Record]:
    """Records of a file, or of standard input for None. Raises Misused for a file that cannot be read."""
    chosen = form or _by_name(source)
    name = str(source) if source is not None else "standard input"
    if chosen is InputForm.parquet:
        if source is None:
            raise Misused("Parquet cannot be read from standard input: give a file")
        from .parquet import parquet_rows

        yield from _of_rows(parquet_rows(source), name, shape)
    elif source is None:
        yield from _READERS[chosen](stdin, name, shape)
    else:
        try:
            opened = source.open("rb")
        except OSError as error:
            raise Misused(f"cannot read {source}: {error.strerror}") from None
        with opened:
            yield from _READERS[chosen](opened, name, shape)


def _by_name(source: Path | None) -> InputForm:
    known = {
        ".jsonl": InputForm.jsonl,
        ".ndjson": InputForm.jsonl,
        ".csv": InputForm.csv,
        ".parquet": InputForm.parquet,
    }
    return known.get(source.suffix.lower() if source is not None else "", InputForm.lines)


# ---- lines


def value_batches(sources: Sequence[Path | None], stdin: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of files, or of standard input for None, in batches, without a step for each."""
    for source in sources:
        name = str(source) if source is not None else "standard input"
        try:
            file = source.open("rb") if source is not None else stdin
        except OSError as error:
            raise Misused(f"cannot read {source}: {error.strerror}") from None
        try:
            yield from _split_lines(file, name)
        finally:
            if source is not None:
                file.close()


def _split_lines(file: BinaryIO, name: str) -> Iterator[list[bytes]]:
    """The lines of each read, without waiting for more of them. A pipe that stays open delays no line."""
    read = getattr(file, "read1", file.read)
    number = size = 0
    begun: list[bytes] = []
    while piece := read(_READ_BYTES):
        line, line_break, rest = piece.rpartition(b"\n")
        begun.append(line if line_break else rest)
        size += len(begun[-1])
        if line_break:
            lines = b"".join(begun).split(b"\n")
            size = len(lines[0])
        if size > MOST_RECORD_BYTES:
            raise _too_long(name, number + 1)
        if line_break:
            yield lines
            number += len(lines)
            begun, size = [rest], len(rest)
    if size:
        yield [b"".join(begun)]


def size_of(sources: Sequence[Path | None]) -> int | None:
    """Bytes of all files together; None where one has no known size, as standard input."""
    files = [source for source in sources if source is not None and source.is_file()]
    return sum(file.stat().st_size for file in files) if len(files) == len(sources) else None


def is_lines(source: Path | None, form: InputForm | None) -> bool:
    return (form or _by_name(source)) is InputForm.lines


def _lines(file: BinaryIO, name: str, shape: Shape) -> Iterator[Record]:
    pieces = file if shape.delimiter == b"\n" else _split(file, shape.delimiter, name)
    for number, piece in enumerate(pieces, 1):
        line = piece.removesuffix(shape.delimiter)
        if len(line) > MOST_RECORD_BYTES:
            raise _too_long(name, number)
        key, value = None, line
        if shape.key_delimiter is not None:
            before, found, after = line.partition(shape.key_delimiter)
            if not found:
                raise CommandError(f"{name}, line {number}: there is no {shape.key_delimiter.decode()!r} after a key")
            key, value = before, after
        yield Record(None if value == shape.null_value else value, key)


def _split(file: BinaryIO, delimiter: bytes, name: str) -> Iterator[bytes]:
    kept, number = b"", 0
    while data := file.read(1 << 16):
        *whole, kept = (kept + data).split(delimiter)
        number += len(whole)
        if len(kept) > MOST_RECORD_BYTES:
            raise _too_long(name, number + 1)
        yield from whole
    if kept:
        yield kept


def _too_long(name: str, number: int) -> CommandError:
    return CommandError(f"{name}, record {number} is longer than {MOST_RECORD_BYTES >> 20} MB: check --delimiter")


def _file(file: BinaryIO, name: str, shape: Shape) -> Iterator[Record]:
    data = file.read(MOST_RECORD_BYTES + 1)
    if len(data) > MOST_RECORD_BYTES:
        raise _too_long(name, 1)
    yield Record(data)


# ---- JSON lines, CSV and Parquet


def _json_lines(file: BinaryIO, name: str, shape: Shape) -> Iterator[Record]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            content = json.loads(line)
        except ValueError as error:
            raise CommandError(f"{where} is not JSON: {error}") from None
        if not isinstance(content, dict) or not {"value", "value_base64"} & content.keys():
            raise CommandError(f'{where} has no "value": use --input lines to send each line as it is')
        yield record_of(content, where)


def _csv(file: BinaryIO, name: str, shape: Shape) -> Iterator[Record]:
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    try:
        yield from _of_rows(csv.DictReader(text), name, shape)
    except UnicodeDecodeError:
        raise CommandError(f"{name} is not UTF-8: convert it with iconv") from None
    except csv.Error as error:
        raise CommandError(f"{name} is not CSV: {error}") from None
    finally:
        text.detach()


def _of_rows(rows: Iterable[Mapping[str, object]], name: str, shape: Shape) -> Iterator[Record]:
    """A row with the column `value` is a record as `consume` writes it; another one becomes a JSON object."""
    for number, row in enumerate(rows, 1):
        where = f"{name}, row {number}"
        for column in (shape.key_column, shape.value_column):
            if column is not None and column not in row:
                raise Misused(f"{name} has no column {column!r}, but {', '.join(map(str, row))}")
        if "value" in row and shape.key_column is None and shape.value_column is None:
            yield record_of(row, where)
            continue
        value = row[shape.value_column] if shape.value_column is not None else dict(row)
        key = row[shape.key_column] if shape.key_column is not None else None
        yield Record(_bytes(value), _bytes(key))


def record_of(content: Mapping[str, object], where: str) -> Record:
    """The record of an object with `value`, and perhaps `key`, `headers`, `partition` and `timestamp`."""
    try:
        return Record(
            _part(content, "value"),
            _part(content, "key"),
            _headers(content.get("headers")),
            _number(content.get("partition"), -1),
            _timestamp(content.get("timestamp")),
        )
    except (ValueError, TypeError, KeyError, binascii.Error) as error:
        raise CommandError(f"{where} is not a record: {error}") from None


def _part(content: Mapping[str, object], name: str) -> bytes | None:
    encoded = content.get(f"{name}_base64")
    if encoded is not None:
        if not isinstance(encoded, str | bytes):
            raise TypeError(f"{name}_base64 is not a text")
        return base64.b64decode(encoded, validate=True)
    return _bytes(content.get(name))


def _bytes(content: object) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    return (content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)).encode()


def _headers(content: object) -> ProducedHeaders:
    """A list of objects with `key` and `value`, an object, or either as JSON text."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        content = json.loads(content)
    if isinstance(content, Mapping):
        return [(str(name), _bytes(value)) for name, value in content.items()]
    if not isinstance(content, list | tuple):
        raise TypeError("its headers are not a list or an object")
    return [(str(one["key"]), _part(one, "value")) for one in content]


def _number(content: object, default: int) -> int:
    if content is None or content == "":
        return default
    if not isinstance(content, str | int | float):
        raise TypeError("its partition is not a number")
    return int(content)


def _timestamp(content: object) -> int:
    if content is None or content == "":
        return 0
    if hasattr(content, "timestamp"):  # Parquet's are datetimes
        return int(content.timestamp() * 1000)
    return content if isinstance(content, int) else timestamp_ms(str(content))


_READERS: dict[InputForm, Records] = {
    InputForm.lines: _lines,
    InputForm.jsonl: _json_lines,
    InputForm.csv: _csv,
    InputForm.file: _file,
}
