"""Finding records by time: the time index gives the batch to start from, and only one batch is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.batch import HEADER_BYTES, TimestampType
from ...protocol.records.compression import MAX_DECOMPRESSED_BYTES, decompress
from ...protocol.records.errors import BatchError, TooLargeDecompressed
from ...protocol.records.walk import LONG_MIN, WHOLE, find_record, walk
from .index import NO_TIMESTAMP

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from .segment import Segment

#: A larger batch is the work of a thread: some milliseconds at most, with the walk in Python.
OPENED_AT_ONCE_RECORDS = 5_000
#: gzip, the slowest codec, takes some 4 us for a kilobyte.
OPENED_AT_ONCE_BYTES = 64 << 10
#: The buffer for one batch on the loop, and the limit of what the loop decompresses for one request: some 4 ms with gzip.
DECOMPRESSED_AT_ONCE_BYTES = 1 << 20


class TimestampedOffset(NamedTuple):
    """`leader_epoch` is that of the batch; -1 when it has none."""

    offset: int
    timestamp: int
    leader_epoch: int


def record_at_or_after(segments: Sequence[Segment], timestamp: int, start_offset: int) -> TimestampedOffset | None:
    """The first record at or behind `start_offset` with at least `timestamp`. Raises LargeBatch."""
    # Kafka looks into this segment only: the later ones are not older than it, as a rule.
    segment = segment_with(segments, timestamp)
    return None if segment is None else _search(segment, timestamp, start_offset)


def segment_with(segments: Sequence[Segment], timestamp: int) -> Segment | None:
    """Returns the first segment that has, or had before it was damaged, a record with at least `timestamp`."""
    for segment in segments:
        if not segment.size:  # compaction has left nothing of it
            continue
        newest = segment.largest_timestamp()
        # A segment whose records carry no time is as old as its file.
        if (newest if newest >= 0 else segment.modified_ms()) >= timestamp:
            return segment
    return None


def _search(segment: Segment, timestamp: int, start_offset: int) -> TimestampedOffset | None:
    offset = max(segment.time_index.floor(timestamp), start_offset)
    for position, header in segment.headers(segment.offset_index.floor(offset)):
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        found = _first_record(segment, position, header, timestamp, start_offset)
        if found is not None:
            return found
    return None


def latest_record(segments: Sequence[Segment]) -> TimestampedOffset | None:
    """The first record of the first batch that has the log's largest timestamp. Raises LargeBatch."""
    segment = max(segments, key=lambda one: one.largest_timestamp())
    newest = segment.largest_timestamp()
    if newest != NO_TIMESTAMP:
        for position, header in segment.headers(segment.offset_index.floor(segment.offset_of_max_timestamp)):
            if header.max_timestamp == newest:
                return _first_record(segment, position, header, newest, header.base_offset)
    return None


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampedOffset | None:
    lookup = LargeBatch(header, segment.batch_bytes(position, header.size), timestamp, start_offset)
    is_small = header.record_count <= OPENED_AT_ONCE_RECORDS
    if header.compression:
        is_small = is_small and header.size <= OPENED_AT_ONCE_BYTES
    if not is_small:
        raise lookup
    try:
        return lookup.find(DECOMPRESSED_AT_ONCE_BYTES if header.compression else header.size)
    except TooLargeDecompressed:
        raise lookup from None


class LargeBatch(Exception):
    """The batch that has the response takes long to open: `find` is to be called on a thread."""

    def __init__(self, header: BatchHeader, batch: bytes | bytearray, timestamp: int, start_offset: int) -> None:
        super().__init__(f"a batch of {header.record_count} records at offset {header.base_offset}")
        self.header = header
        self._batch = batch
        self._timestamp = timestamp
        self._start_offset = start_offset

    def find(self, limit: int = MAX_DECOMPRESSED_BYTES) -> TimestampedOffset | None:
        """Returns the first matching record of the batch, or None. Raises TooLargeDecompressed.

        For a poisoned batch it returns the first offset, with the time of its header: its records cannot be read.
        """
        header = self.header
        epoch, logged = header.leader_epoch, header.timestamp_type is TimestampType.LOG_APPEND_TIME
        try:
            payload = decompress(header.compression, memoryview(self._batch)[HEADER_BYTES : header.size], limit)
        except TooLargeDecompressed:
            if limit < MAX_DECOMPRESSED_BYTES:
                raise
            return TimestampedOffset(header.base_offset, header.max_timestamp, epoch)
        except BatchError:
            return TimestampedOffset(header.base_offset, header.max_timestamp, epoch)
        least_timestamp = LONG_MIN if logged else self._timestamp
        least_offset = self._start_offset - header.base_offset
        base, count = header.base_timestamp, header.record_count
        found = find_record(payload, count, base, least_timestamp, least_offset)
        if found is None:
            if walk(payload, 0, count, base).fault == WHOLE:
                return None
            return TimestampedOffset(header.base_offset, header.max_timestamp, epoch)
        return TimestampedOffset(header.base_offset + found[0], header.max_timestamp if logged else found[1], epoch)
