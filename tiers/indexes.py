"""Indexes of remote segments, parsed and checked.

The files are those of local segments (`storage/segments/index.py`). A remote one comes from
outside: entries must ascend and lie within the segment, or the object is damaged.
"""

from __future__ import annotations

import operator
import struct
import sys
from array import array
from bisect import bisect_right
from typing import NamedTuple

from ..storage.segments.aborted import AbortedTransaction, is_plausible
from .object_names import object_name
from .segment_metadata import RemoteLogSegmentMetadata
from .store import DamagedRemoteObject, PartType

_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_ENTRY = struct.Struct(">hqqqq")
#: Memory of an entry beside its content: objects, keys, the record in the order of uses.
OVERHEAD_BYTES = 1_000


class RemoteIndexes(NamedTuple):
    """The offset and time index of a segment, as columns. Offsets are relative to the segment's start."""

    start_offset: int
    offsets: array[int]
    positions: array[int]
    timestamps: array[int]
    time_offsets: array[int]

    @property
    def size_bytes(self) -> int:
        columns = (self.offsets, self.positions, self.timestamps, self.time_offsets)
        return sum(column.itemsize * len(column) for column in columns) + OVERHEAD_BYTES

    def position_of(self, offset: int) -> int:
        """Returns a position at or before the batch that has `offset`: from there to walk."""
        number = bisect_right(self.offsets, offset - self.start_offset) - 1
        return self.positions[number] if number >= 0 else 0

    def offset_from(self, timestamp: int) -> int:
        """Returns an offset before which every record is older than `timestamp`."""
        number = bisect_right(self.timestamps, timestamp) - 1
        return self.start_offset + (self.time_offsets[number] if number >= 0 else 0)


def parse_indexes(segment: RemoteLogSegmentMetadata, offset_index: bytes, time_index: bytes) -> RemoteIndexes:
    """Raises DamagedRemoteObject, with the position of the first entry that cannot be right."""
    return RemoteIndexes(
        segment.start_offset, *_offset_columns(segment, offset_index), *_time_columns(segment, time_index)
    )


def _offset_columns(segment: RemoteLogSegmentMetadata, content: bytes) -> tuple[array[int], array[int]]:
    """Returns the columns of entries of 8 bytes. Zeros at the end are preallocated: the first entry may be one of them."""
    entries = array("i")
    entries.frombytes(_whole(segment, PartType.OFFSET_INDEX, content, 8))
    if sys.byteorder == "little":
        entries.byteswap()
    offsets, positions = entries[0::2], entries[1::2]
    used = len(positions)
    while used and positions[used - 1] == 0:
        used -= 1
    offsets, positions = offsets[:used], positions[:used]
    _check(segment, PartType.OFFSET_INDEX, offsets, segment.end_offset - segment.start_offset, 8)
    _check(segment, PartType.OFFSET_INDEX, positions, segment.size_bytes - 1, 8)
    return offsets, positions


def _time_columns(segment: RemoteLogSegmentMetadata, content: bytes) -> tuple[array[int], array[int]]:
    pairs = list(_TIME_ENTRY.iter_unpack(_whole(segment, PartType.TIME_INDEX, content, 12)))
    while pairs and pairs[-1] == (0, 0):
        pairs.pop()
    timestamps, offsets = array("q", (one for one, _ in pairs)), array("i", (one for _, one in pairs))
    _check(segment, PartType.TIME_INDEX, offsets, segment.end_offset - segment.start_offset, 12)
    _check(segment, PartType.TIME_INDEX, timestamps, None, 12)
    return timestamps, offsets


def _whole(segment: RemoteLogSegmentMetadata, part: PartType, content: bytes, width: int) -> bytes:
    if len(content) % width:
        reason = f"{len(content)} bytes are no entries of {width}"
        raise DamagedRemoteObject(object_name(segment, part), len(content), reason)
    return content


def _check(segment: RemoteLogSegmentMetadata, part: PartType, column: array[int], most: int | None, width: int) -> None:
    """Raises DamagedRemoteObject if a column descends, or is not within 0 and `most`; None: any numbers."""
    if not all(map(operator.le, column, column[1:])):
        number = next(number for number in range(1, len(column)) if column[number] < column[number - 1])
        raise DamagedRemoteObject(object_name(segment, part), number * width, f"{column[number]} is out of order")
    if column and most is not None and (column[0] < 0 or column[-1] > most):
        number = 0 if column[0] < 0 else next(number for number, one in enumerate(column) if one > most)
        reason = f"{column[number]} is not within the segment"
        raise DamagedRemoteObject(object_name(segment, part), number * width, reason)


def parse_aborted(segment: RemoteLogSegmentMetadata, content: bytes) -> list[AbortedTransaction]:
    """Returns the aborted transactions whose markers are in the segment. Raises DamagedRemoteObject."""
    width, found, before = _ABORTED_ENTRY.size, [], segment.start_offset - 1
    entries = _ABORTED_ENTRY.iter_unpack(_whole(segment, PartType.TRANSACTION_INDEX, content, width))
    for number, (version, *fields) in enumerate(entries):
        entry = AbortedTransaction(*fields)
        if version != 0 or not before < entry.last_offset <= segment.end_offset or not is_plausible(entry):
            name = object_name(segment, PartType.TRANSACTION_INDEX)
            raise DamagedRemoteObject(name, number * width, f"version {version}, {entry}")
        found.append(entry)
        before = entry.last_offset
    return found
