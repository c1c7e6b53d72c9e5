"""The responses to clients, as lines of JSON with their kinds. produce.py and consume.py write them, the checker reads them.

Times are in ns of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO, Union


class Sent(NamedTuple):
    """The outcome of a record. `error` is empty for an acknowledged record; any other may be in the log or not."""

    producer: str
    number: int
    partition: int
    offset: int
    error: str


class Seen(NamedTuple):
    """A record as a consumer got it. A `session` is an uninterrupted read of one consumer."""

    session: str
    partition: int
    offset: int
    value: str


class Committed(NamedTuple):
    """An acknowledged commit of the group's offset, with its time."""

    at_ns: int
    partition: int
    offset: int


class Resumed(NamedTuple):
    """The offset from which the group resumed, with the time of the request. -1: nothing was committed."""

    at_ns: int
    partition: int
    offset: int


Line = Union[Sent, Seen, Committed, Resumed]
KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Sent, Seen, Committed, Resumed)}


def value_of(producer: str, number: int) -> str:
    return f"{producer}-{number}"


def write(file: TextIO, line: Line) -> None:
    file.write(json.dumps([type(line).__name__, *line]) + "\n")


def read(files: Iterable[Path]) -> Iterator[Line]:
    """Yields the lines of the files. Leaves out a last line that a kill cut short: no response depends on it."""
    for path in files:
        for text in path.read_text().splitlines(keepends=True):
            if text.endswith("\n"):
                kind, *fields = json.loads(text)
                yield KINDS[kind](*fields)
