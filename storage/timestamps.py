"""Finding records by time: the time index says from which batch to look, and only one batch is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..protocol.records.batch import BatchHeader, TimestampType
from .index import NO_TIMESTAMP
from .poison import Poisoned, readable_records
from .segment import Segment


class TimestampedOffset(NamedTuple):
    """`leader_epoch` is that of the batch; -1 when it has none."""

    offset: int
    timestamp: int
    leader_epoch: int


def record_at_or_after(segments: Sequence[Segment], timestamp: int, start_offset: int) -> TimestampedOffset | None:
    """The first record at or behind `start_offset` with at least `timestamp`."""
    for segment in segments:
        if not segment.size:  # compaction has left nothing of it
            continue
        newest = segment.largest_timestamp()
        # A segment whose records carry no time is as old as its file.
        if (newest if newest >= 0 else segment.modified_ms()) < timestamp:
            continue
        # Kafka looks into this segment only: the later ones are not older than it, as a rule.
        return _search(segment, timestamp, start_offset)
    return None


def _search(segment: Segment, timestamp: int, start_offset: int) -> TimestampedOffset | None:
    offset = max(segment.time_index.floor(timestamp), start_offset)
    for position, header in segment.headers(segment.offset_index.floor(offset)):
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        for found in _records(segment, position, header):
            if found.timestamp >= timestamp and found.offset >= start_offset:
                return found
    return None


def latest_record(segments: Sequence[Segment]) -> TimestampedOffset | None:
    """The first record of the first batch that has the log's largest timestamp."""
    segment = max(segments, key=lambda one: one.largest_timestamp())
    newest = segment.largest_timestamp()
    if newest == NO_TIMESTAMP:
        return None
    for position, header in segment.headers(segment.offset_index.floor(segment.offset_of_max_timestamp)):
        if header.max_timestamp == newest:
            records = _records(segment, position, header)
            return next((record for record in records if record.timestamp == newest), None)
    return None


def _records(segment: Segment, position: int, header: BatchHeader) -> list[TimestampedOffset]:
    """Of a poisoned batch the first offset, with the time of its header: nobody can read more of it."""
    batch = segment.batch_bytes(position, header.size)
    try:
        records = readable_records(header, batch)
    except Poisoned:
        return [TimestampedOffset(header.base_offset, header.max_timestamp, header.leader_epoch)]
    logged = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return [
        TimestampedOffset(record.offset, header.max_timestamp if logged else record.timestamp, header.leader_epoch)
        for record in records
    ]
