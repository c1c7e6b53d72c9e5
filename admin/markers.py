"""Markers at the end of a log: whether anything but the markers of transactions follows an offset.

The headers of batches tell them apart: a control batch holds a marker, and no record that a consumer gets; compaction leaves
batches without records. A client that commits the offset after its last record never commits one behind the markers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..protocol.records.batch import iter_headers
from ..protocol.records.errors import BatchError
from .lag import GroupProgress
from .places import Place

#: A reader looks at no more offsets: more of them are seldom markers alone.
MOST_MARKERS = 64
#: Bytes that hold so many markers. Each has 78, and a batch with records that takes more ends the look.
MARKER_BYTES = MOST_MARKERS * 100
#: Partitions that are looked at in one turn.
MOST_LOOKS = 200


class Gap(NamedTuple):
    """The offsets from a commit up to the end of a log, without the end."""

    offset: int
    end: int


def gaps_of(groups: Iterable[Mapping[Place, GroupProgress]], ends: Mapping[Place, int]) -> dict[Place, Gap]:
    """The gaps of groups that may hold markers alone."""
    found: dict[Place, Gap] = {}
    for positions in groups:
        for place, position in positions.items():
            note_gap(found, place, position, ends)
    return found


def note_gap(gaps: dict[Place, Gap], place: Place, position: GroupProgress, ends: Mapping[Place, int]) -> None:
    """Notes the gap behind a commit near a known end: of each partition the longest one, at most MOST_LOOKS together."""
    offset, end = position.offset, ends.get(place)
    if offset is None or position.counted is not None or end is None or not may_be_markers(offset, end):
        return
    if place in gaps:
        gaps[place] = Gap(min(offset, gaps[place].offset), end)
    elif len(gaps) < MOST_LOOKS:
        gaps[place] = Gap(offset, end)


def may_be_markers(offset: int, end: int) -> bool:
    """Returns whether the offsets from `offset` on are few enough to be looked at."""
    return 0 < end - offset <= MOST_MARKERS


def records_end_in(data: bytes | bytearray | memoryview, gap: Gap) -> int | None:
    """The offset after the last record of a gap, or the gap's offset where it has none. `data`: the batches from the offset
    on. Returns None where they do not reach the gap's end, and for bytes that are no batches.
    """
    found = reached = gap.offset
    try:
        for _, header in iter_headers(data):
            if header.base_offset >= gap.end:
                break
            reached = header.next_offset
            if header.record_count and not header.is_control:
                found = reached
    except BatchError:
        return None
    return found if reached >= gap.end else None
