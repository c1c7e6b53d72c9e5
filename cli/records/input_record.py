"""A record for `produce`, and the shape of the input that it comes from."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, AnyStr, BinaryIO, NamedTuple

from ...client.reasons import reason_of
from ...client.user_errors import Misused, UserError
from .line_ranges import ALL, Lines

if TYPE_CHECKING:
    from ...records.consumed import ProducedHeaders

#: Limit of a line, and of a file that is one record. Brokers take 1 MB by default.
MOST_RECORD_BYTES = 64 << 20
#: Limit of a line of JSON or CSV: base64 takes a third more, and a line has a key and headers, too.
MOST_LINE_BYTES = 2 * MOST_RECORD_BYTES
_LINE_ENDS = (b"\n", "\n", "\r")


class InputForm(StrEnum):
    lines = "lines"
    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"
    file = "file"


@dataclass(slots=True)
class Record:
    """`timestamp_ms` 0: the time of sending. `partition` -1: by the key. `source`, `line`: its place in the inputs."""

    value: bytes | None
    key: bytes | None = None
    headers: ProducedHeaders = field(default_factory=list)
    partition: int = -1
    timestamp_ms: int = 0
    source: int = 0
    line: int = 0


class Batch(NamedTuple):
    """Values of lines that follow one another; `first` is the number of the first, from 1, in an input."""

    values: Sequence[bytes]
    source: int
    first: int


@dataclass(frozen=True, slots=True)
class Shape:
    """How an input becomes records. Delimiters are bytes; columns are of CSV and Parquet. `lines`: those that count, of
    CSV those in which a row begins, of Parquet rows. The others are not parsed.
    """

    delimiter: bytes = b"\n"
    key_delimiter: bytes | None = None
    null_value: bytes | None = None
    key_column: str | None = None
    value_column: str | None = None
    lines: Lines = ALL


Records = Callable[[BinaryIO, str, Shape], Iterator[Record]]


def opened_input(source: Path) -> BinaryIO:
    """Raises Misused for a file that cannot be read."""
    try:
        return source.open("rb")
    except OSError as error:
        raise Misused(f"cannot read {source}: {reason_of(error)}") from None


@contextlib.contextmanager
def readable(name: str) -> Iterator[None]:
    """Names the input whose disk or pipe fails in the middle."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{name} cannot be read: {reason_of(error)}") from None


def name_of(source: Path | None) -> str:
    """The name of an input in messages."""
    return str(source) if source is not None else "standard input"


def too_long(name: str, number: int, most: int, option: str = "--delimiter") -> UserError:
    return UserError(f"{name}, record {number} is longer than {most >> 20} MB: check {option}")


def bounded_lines(file: IO[AnyStr], name: str, most: int, option: str) -> Iterator[AnyStr]:
    """The lines of a file with their ends. Raises UserError for one of more than `most` bytes or characters, and reads no
    more of it.
    """
    for number in itertools.count(1):
        line = file.readline(most + 1)
        if not line:
            return
        if len(line) > most and line[-1:] not in _LINE_ENDS:
            raise too_long(name, number, most, option)
        yield line
