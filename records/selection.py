"""The records that a command or a page selects: topics, partitions, and where it begins and ends (`-o`, `--until`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..admin.positions import END, Position


@dataclass(slots=True)
class Selection:
    """The records to read. `partitions` empty: all. `until` None: to the end, or for ever with `follow`."""

    topics: Sequence[str]
    partitions: Sequence[int] = ()
    start: Position = field(default_factory=lambda: Position(END))
    until: Position | None = None
    follow: bool = False
    count: int | None = None
    group: str | None = None
    committed: bool = True
