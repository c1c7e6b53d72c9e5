"""Retention by the rules on a whole cache, without the order that a leader keeps: what `RetainedSegments` must return."""

from __future__ import annotations

from collections.abc import Collection

from odradek.tiers.cache import RemoteLogMetadataCache
from odradek.tiers.lineage import Epochs, is_within, without_empty
from odradek.tiers.retention import Retention, RetentionPlan, is_expired
from odradek.tiers.segment_metadata import COPY_SEGMENT_FINISHED, RemoteLogSegmentMetadata


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
