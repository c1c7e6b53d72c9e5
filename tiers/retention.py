"""Retention over both parts of a log: the remote segments that go, the log's new start, and the local segments that may go.

Pure functions (KIP-405, KIP-950). The leader moves the log start offset first, so that no reader is sent to a segment that
goes, and then deletes. Retention by size counts remote segments of the log's history and local segments that are not
copied. Kafka's function is `RemoteLogManager.cleanupExpiredRemoteLogSegments`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ..storage.log.log import Log
from ..storage.segments.segment import Segment
from .cache import RemoteLogMetadataCache
from .lineage import Epochs, is_within, without_empty
from .segment_metadata import COPY_SEGMENT_FINISHED, RemoteLogSegmentMetadata


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


def plan_retention(
    cache: RemoteLogMetadataCache,
    epochs: Epochs,
    retention: Retention,
    *,
    log_start_offset: int,
    log_end_offset: int,
    only_local_bytes: int,
    now_ms: int,
    copying: Collection[bytes] = (),
) -> RetentionPlan:
    """Returns the copied segments that the leader deletes now. `copying` are ids of segments that it copies.

    Segments go from the oldest on, up to the first of the log's history that is to stay. Segments of epochs before the log's
    first one go too, whatever their age: they are of a history that no leader has. Interrupted copies and deletions are
    those of `plan_collection`.
    """
    log_epochs = without_empty(epochs)
    if not log_epochs:
        return RetentionPlan(log_start_offset, [])
    own = _in_order(cache, log_epochs, copying)
    within = {one.segment_id for one in own if is_within(one, log_end_offset, log_epochs)}
    excess = _excess(retention, only_local_bytes, [one for one in own if one.segment_id in within])
    first_epoch = log_epochs[0][0]
    deletions, start = [], log_start_offset
    for segment in own:
        is_within_log = segment.segment_id in within
        if segment.end_offset >= log_start_offset or segment.epochs[-1][0] > first_epoch:
            if not is_within_log:
                continue
            is_too_much = excess > 0 and segment.size_bytes <= excess
            if not is_too_much and not is_expired(segment, retention, now_ms):
                break
            start = max(start, segment.end_offset + 1)
        # Kafka does not subtract segments below the log's start, and then deletes younger ones for their size.
        excess -= segment.size_bytes if is_within_log else 0
        deletions.append(segment)
    found = {one.segment_id for one in deletions} | set(copying)
    deletions += [
        one
        for one in cache.segments()
        if one.state is COPY_SEGMENT_FINISHED and one.epochs[-1][0] < first_epoch and one.segment_id not in found
    ]
    return RetentionPlan(start, deletions)


def _in_order(
    cache: RemoteLogMetadataCache, log_epochs: Epochs, copying: Collection[bytes]
) -> list[RemoteLogSegmentMetadata]:
    """Returns the copied segments of the log's epochs, each once, by epoch and start."""
    found: dict[bytes, RemoteLogSegmentMetadata] = {}
    for epoch, _ in log_epochs:
        for segment in cache.segments_of(epoch):
            if segment.state is COPY_SEGMENT_FINISHED and segment.segment_id not in copying:
                found.setdefault(segment.segment_id, segment)
    return list(found.values())


def _excess(retention: Retention, local_bytes: int, segments: Collection[RemoteLogSegmentMetadata]) -> int:
    """Returns the bytes beyond `retention.bytes`."""
    if retention.bytes < 0:
        return 0
    return local_bytes + sum(one.size_bytes for one in segments) - retention.bytes


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
