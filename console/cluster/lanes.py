"""Lanes: the range of offsets of each partition that a search reads, and what it has of them."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...admin.places import Place
from ...admin.positions import BEGINNING, END, TAIL, Position
from ...protocol.log_places import EARLIEST, LATEST
from ...records.reading import range_notes
from .log_reader import LogReader
from .query import NEWEST, Query
from .search_result import SearchResult

if TYPE_CHECKING:
    from ...records.consumed import ConsumedRecord


@dataclass(slots=True)
class Lane:
    """A partition: the offsets from `low` to before `high` were not read, `ready` are messages that pass. `read`: the
    offsets of all records of the windows that were read, and `skipped` the first and the last offset and the number of
    records of batches that were not decoded.
    """

    place: Place
    low: int
    high: int
    ready: deque[ConsumedRecord] = field(default_factory=deque)
    read: array[int] = field(default_factory=lambda: array("q"))
    skipped: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def is_exhausted(self) -> bool:
        return self.low >= self.high


def lanes_of(
    reader: LogReader,
    places: list[Place],
    query: Query,
    start: Position | None,
    until: Position | None,
    result: SearchResult,
) -> list[Lane]:
    first, last = reader.offsets_at(places, EARLIEST), reader.offsets_at(places, LATEST)
    known = [place for place in places if place in first and place in last]
    lows, highs = dict(first), dict(last)
    if start is not None:
        lows = _resolved(reader, known, start, first, last)
        if start.offset is not None and start.offset >= 0:
            result.notes += range_notes(start.offset, first, last, "nothing to read there")
    if until is not None:
        highs = _resolved(reader, known, until, first, last)
    lanes = []
    for place in known:
        low, high = max(first[place], lows[place]), min(last[place], highs[place])
        edge = query.edges.get(place[1])
        if edge is not None:
            low, high = (low, min(high, edge)) if query.order == NEWEST else (max(low, edge), high)
        lanes.append(Lane(place, low, max(low, high)))
    return lanes


def _resolved(
    reader: LogReader, places: list[Place], position: Position, first: dict[Place, int], last: dict[Place, int]
) -> dict[Place, int]:
    """The offset of each partition at a position."""
    if position.timestamp_ms is not None:
        found = reader.offsets_at(places, position.timestamp_ms)
        return {place: found[place] if found.get(place, -1) >= 0 else last[place] for place in places}
    offset = position.offset
    assert offset is not None
    if offset == BEGINNING:
        return first
    if offset == END:
        return last
    if offset < 0:  # the newest of each partition
        return {place: last[place] + (offset - TAIL) for place in places}
    return dict.fromkeys(places, offset)
