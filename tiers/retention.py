"""Retention over both parts of a log: its limits, what the leader does, and the local segments that may go.

Pure functions (KIP-405, KIP-950). The leader moves the log start offset first, so that no reader is sent to a segment that
goes, and then deletes. Retention by size counts remote segments of the log's history and local segments that are not
copied. Remote segments are those of `RetainedSegments`. Kafka's function is
`RemoteLogManager.cleanupExpiredRemoteLogSegments`.
"""

from __future__ import annotations

from typing import NamedTuple

from ..storage.log.log import Log
from ..storage.segments.segment import Segment
from .segment_metadata import RemoteLogSegmentMetadata


class Retention(NamedTuple):
    """`retention.ms` and `retention.bytes`, or `local.retention.ms` and `local.retention.bytes`; -1: no limit."""

    ms: int
    bytes: int


class RetentionPlan(NamedTuple):
    """`log_start_offset` is the new start of the log, at least the old one; then `deletions` are deleted, in order."""

    log_start_offset: int
    deletions: list[RemoteLogSegmentMetadata]


def only_local_bytes(log: Log, highest_remote_offset: int) -> int:
    """Returns the size of the local segments that are not copied."""
    return sum(segment.size for segment in log.segments if segment.base_offset > highest_remote_offset)


def is_expired(segment: RemoteLogSegmentMetadata, retention: Retention, now_ms: int) -> bool:
    """Returns whether all records of a segment are older than `retention.ms`."""
    return 0 <= retention.ms <= now_ms and segment.max_timestamp_ms < now_ms - retention.ms


class LocalRetentionPlan(NamedTuple):
    """`deletable` of the oldest local segments may go. `rolls_active`: all others go and the active segment is beyond local
    retention, too; it is rolled, so that the leader copies it and a later pass deletes it.
    """

    deletable: int
    rolls_active: bool


def plan_local_retention(
    log: Log, highest_remote_offset: int, local: Retention, *, log_start_offset: int, now_ms: int, high_watermark: int
) -> LocalRetentionPlan:
    """Returns the oldest local segments that may go: those that are copied and beyond local retention, or below the log's
    start. The active segment stays, but a topic without new records must expire as well (KIP-405,
    `UnifiedLog.deletableSegments`).
    """
    excess, count = log.size - local.bytes, 0
    *closed, active = log.segments

    def is_beyond(segment: Segment) -> bool:
        nonlocal excess
        excess -= segment.size
        is_too_much = local.bytes >= 0 and excess >= 0
        return is_too_much or (local.ms >= 0 and now_ms - segment.newest_ms() > local.ms)

    for segment, following in zip(closed, log.segments[1:], strict=True):
        next_offset = following.base_offset
        is_copied = next_offset - 1 <= highest_remote_offset
        if not ((is_beyond(segment) and is_copied) or next_offset <= log_start_offset) or next_offset > high_watermark:
            return LocalRetentionPlan(count, rolls_active=False)
        count += 1
    has_all = 0 < log.log_end_offset <= high_watermark and active.size > 0
    return LocalRetentionPlan(count, rolls_active=has_all and is_beyond(active))
