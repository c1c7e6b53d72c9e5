"""Lines and whole files as records, and lines in batches without a step for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from ...client.user_errors import UserError
from .input_record import (
    MOST_RECORD_BYTES,
    Batch,
    Record,
    Shape,
    bounded_lines,
    name_of,
    opened_input,
    readable,
    too_long,
)

#: Lines that are read at once.
_READ_BYTES = 64 << 10


def value_batches(sources: Sequence[Path | None], stdin: BinaryIO, first: int = 1) -> Iterator[Batch]:
    """The lines of files, or of standard input for None, in batches, without a step for each. `first`: of the first file."""
    for index, source in enumerate(sources):
        name = name_of(source)
        file = opened_input(source) if source is not None else stdin
        try:
            number = 1
            with readable(name):
                for values in _split_lines(file, name):
                    skipped = max(0, first - number) if index == 0 else 0
                    if skipped < len(values):
                        yield Batch(values[skipped:] if skipped else values, index, number + skipped)
                    number += len(values)
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
            raise too_long(name, number + 1, MOST_RECORD_BYTES)
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


def read_lines(file: BinaryIO, name: str, shape: Shape) -> Iterator[Record]:
    pieces = (
        bounded_lines(file, name, MOST_RECORD_BYTES, "--delimiter")
        if shape.delimiter == b"\n"
        else _split(file, shape.delimiter, name)
    )
    for number, piece in enumerate(pieces, 1):
        if number not in shape.lines:
            continue
        line = piece.removesuffix(shape.delimiter)
        if len(line) > MOST_RECORD_BYTES:
            raise too_long(name, number, MOST_RECORD_BYTES)
        key, value = None, line
        if shape.key_delimiter is not None:
            before, found, after = line.partition(shape.key_delimiter)
            if not found:
                raise UserError(f"{name}, line {number}: there is no {shape.key_delimiter.decode()!r} after a key")
            key, value = before, after
        yield Record(None if value == shape.null_value else value, key, line=number)


def _split(file: BinaryIO, delimiter: bytes, name: str) -> Iterator[bytes]:
    kept, number = b"", 0
    while data := file.read(1 << 16):
        *whole, kept = (kept + data).split(delimiter)
        number += len(whole)
        if len(kept) > MOST_RECORD_BYTES:
            raise too_long(name, number + 1, MOST_RECORD_BYTES)
        yield from whole
    if kept:
        yield kept


def read_file(file: BinaryIO, name: str, shape: Shape) -> Iterator[Record]:
    data = file.read(MOST_RECORD_BYTES + 1)
    if len(data) > MOST_RECORD_BYTES:
        raise too_long(name, 1, MOST_RECORD_BYTES)
    if 1 in shape.lines:
        yield Record(data, line=1)
