"""The answers to clients, as lines of JSON: one kind a line, written by produce.py and consume.py, read by the checker.

Times are of the machine's monotonic clock in ns, which all processes share.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO, Union


class Sent(NamedTuple):
    """The outcome of a record. `error` is empty when it was acknowledged; otherwise it may be in the log or not."""

    producer: str
    number: int
    partition: int
    offset: int
    error: str


class Seen(NamedTuple):
    """A record as a consumer got it. A `session` is one uninterrupted reading of one consumer."""

    session: str
    partition: int
    offset: int
    value: str


class Committed(NamedTuple):
    """The group's offset was acknowledged at this time."""

    at_ns: int
    partition: int
    offset: int


class Resumed(NamedTuple):
    """The offset from which the group resumed, and the time of the question. -1: nothing was committed."""

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
    """A last line that a kill cut short is left out: nobody was told what it says."""
    for path in files:
        for text in path.read_text().splitlines(keepends=True):
            if text.endswith("\n"):
                kind, *fields = json.loads(text)
                yield KINDS[kind](*fields)
