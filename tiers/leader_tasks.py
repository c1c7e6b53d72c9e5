"""Tasks of a tiered partition's leader (KIP-405): copies of closed segments to the store, and deletions.

`plan_copies` and `plan_collection` decide from a log and the cache, and change nothing. `copy_segment` and
`delete_segment` have effects, on the store and on the metadata topic, and are for a thread:

| effect of a copy | after a crash behind it |
|---|---|
| COPY_SEGMENT_STARTED is written and read back | this broker resumes, another leader collects |
| objects are written | the same |
| COPY_SEGMENT_FINISHED is written and read back | done |

| effect of a deletion | after a crash behind it |
|---|---|
| DELETE_SEGMENT_STARTED is written and read back | the leader deletes again |
| objects are deleted | the same |
| DELETE_SEGMENT_FINISHED is written and read back | done |

An object exists only while an event names it, so a crash leaves no orphan behind that the next leader does not find.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from ..storage.files.segment_files import SNAPSHOT_SUFFIX
from ..storage.log.log import Log
from ..storage.segments.segment import Segment
from .cache import Applied, RemoteLogMetadataCache
from .lineage import Epochs, epochs_in_range, highest_remote_offset
from .segment_metadata import (
    COPY_SEGMENT_FINISHED,
    COPY_SEGMENT_STARTED,
    DELETE_SEGMENT_FINISHED,
    DELETE_SEGMENT_STARTED,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from .store import RemoteStorageError, RemoteStore, SegmentParts

#: Writes an event to the metadata topic with acks=all, waits until this broker's cache has read it, and returns the effect.
Publish = Callable[[RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate], Applied]
Clock = Callable[[], int]
#: Kafka's default of `remote.log.metadata.custom.metadata.max.bytes`.
MOST_CUSTOM_METADATA_BYTES = 128


class CopyLag(NamedTuple):
    """`remote.copy.lag.ms` and `remote.copy.lag.bytes`, with local retention in the place of -2 and -1 (KIP-1241).

    A segment is due when one of the two is reached. 0 of either: at once; -1: that one is never reached.
    """

    ms: int = 0
    bytes: int = -1


AT_ONCE = CopyLag()


class LeaderLog(NamedTuple):
    """A tiered partition at its leader: the log that is copied, and what is known of its copies."""

    partition: TopicIdPartition
    log: Log
    cache: RemoteLogMetadataCache
    broker_id: int
    #: The ids of uploads of this broker that have not ended. One of a former leadership deletes its objects at its end, and
    #: is not resumed therefore.
    copying: Collection[bytes] = ()


class CopyPlan(NamedTuple):
    """A closed segment that is due, and the metadata of its copy. `is_resumed`: its first event is written already."""

    segment: RemoteLogSegmentMetadata
    parts: SegmentParts
    is_resumed: bool = False


class NotCopyable(Exception):
    """The next segment cannot be copied, nor those after it, which would leave a hole. The text has the reason."""


class CopyDiscarded(Exception):
    """Another broker leads now, or has deleted the segment while it was copied. Its objects are deleted."""


def due_segments(
    log: Log, from_offset: int, last_stable_offset: int, now_ms: int, lag: CopyLag
) -> list[tuple[Segment, int]]:
    """Returns the closed segments from `from_offset` on that end at or below `last_stable_offset` and have waited long
    enough, oldest first, each with the base offset of the next.
    """
    segments = log.segments
    first = max(bisect_right([one.base_offset for one in segments], from_offset) - 1, 0)
    left = sum(one.size for one in segments[first:])
    found = []
    for segment, following in zip(segments[first:], segments[first + 1 :], strict=False):
        left -= segment.size
        if following.base_offset > last_stable_offset or not _has_waited(segment, now_ms, left, lag):
            break
        if following.base_offset > from_offset:
            found.append((segment, following.base_offset))
    return found


def _has_waited(segment: Segment, now_ms: int, bytes_after: int, lag: CopyLag) -> bool:
    if 0 in lag:
        return True
    age_ms = now_ms - segment.newest_ms()
    # A record of the future never gets old.
    return (lag.ms > 0 and not 0 <= age_ms < lag.ms) or 0 < lag.bytes <= bytes_after


def plan_copies(
    source: LeaderLog, last_stable_offset: int, now_ms: int, new_id: Callable[[], bytes], lag: CopyLag = AT_ONCE
) -> list[CopyPlan]:
    """Returns the copies that the leader of a ready partition makes now, oldest first. Calls for the log's thread.

    `last_stable_offset` is at most the high watermark. `new_id` returns a random id. Plans end before the first segment that
    cannot be copied; if that is the first one, raises NotCopyable.
    """
    log = source.log
    epochs = log.epochs.entries()
    copied = highest_remote_offset(source.cache, epochs, log.log_end_offset)
    from_offset = max(copied.offset + 1, log.log_start_offset)
    plans: list[CopyPlan] = []
    for segment, next_offset in due_segments(log, from_offset, last_stable_offset, now_ms, lag):
        try:
            plans.append(_plan(source, epochs, segment, next_offset, now_ms, new_id))
        except NotCopyable:
            if not plans:
                raise
            break
    return plans


def _plan(
    source: LeaderLog, epochs: Epochs, segment: Segment, next_offset: int, now_ms: int, new_id: Callable[[], bytes]
) -> CopyPlan:
    parts = _parts(source.log, segment, next_offset, epochs)
    own = epochs_in_range(epochs, segment.base_offset, next_offset)
    if not own:
        raise NotCopyable(f"{segment!r} has no leader epoch")
    metadata = RemoteLogSegmentMetadata(
        source.partition, new_id(), segment.base_offset, next_offset - 1, segment.newest_ms(), source.broker_id,
        now_ms, segment.size, own, txn_index_empty=parts.transaction_index is None,
    )  # fmt: skip
    for begun in source.cache.unfinished():
        expected = metadata._replace(segment_id=begun.segment_id, event_timestamp_ms=begun.event_timestamp_ms)
        if begun == expected and begun.segment_id not in source.copying:
            return CopyPlan(begun, parts, is_resumed=True)
    return CopyPlan(metadata, parts)


def _parts(log: Log, segment: Segment, next_offset: int, epochs: Epochs) -> SegmentParts:
    if segment.holes is not None:
        raise NotCopyable(f"{segment!r} is damaged")
    offset_index, time_index, transaction_index = map(Path, segment.index_paths())
    snapshot = Path(log.directory.file(next_offset, SNAPSHOT_SUFFIX))
    missing = [path.name for path in (offset_index, time_index, snapshot) if not path.exists()]
    if missing:
        raise NotCopyable(f"{segment!r} has no {', '.join(missing)}")
    has_aborted = transaction_index.exists() and transaction_index.stat().st_size > 0
    lines = [f"{epoch} {start}\n" for epoch, start in epochs if start < next_offset]
    checkpoint = "".join(("0\n", f"{len(lines)}\n", *lines)).encode()
    path = Path(segment.path)
    return SegmentParts(
        path, offset_index, time_index, transaction_index if has_aborted else None, snapshot, checkpoint
    )


def plan_collection(
    cache: RemoteLogMetadataCache, plans: Collection[CopyPlan], copying: Collection[bytes], now_ms: int, grace_ms: int
) -> list[RemoteLogSegmentMetadata]:
    """Returns the segments whose copy or deletion a crash or a change of leaders has interrupted, for `delete_segment`.

    `plans` and `copying` (ids) are the copies that this leader makes. Another broker may still be copying a segment that
    it began as the leader: such a copy is left alone until its first event is older than `grace_ms`.
    """
    own = {plan.segment.segment_id for plan in plans} | set(copying)
    return [
        segment
        for segment in cache.unfinished()
        if segment.state is DELETE_SEGMENT_STARTED
        or (
            segment.state is COPY_SEGMENT_STARTED
            and segment.segment_id not in own
            # The event of a clock that is far ahead would never get old.
            and not -grace_ms < now_ms - segment.event_timestamp_ms < grace_ms
        )
    ]


def copy_segment(
    plan: CopyPlan,
    store: RemoteStore,
    publish: Publish,
    clock: Clock,
    leads: Callable[[], bool],
    most_custom_metadata_bytes: int = MOST_CUSTOM_METADATA_BYTES,
) -> RemoteLogSegmentMetadata:
    """Copies a segment, and returns its metadata, COPY_SEGMENT_FINISHED. `clock` returns milliseconds, `leads` whether this
    broker is the leader.

    Raises RemoteStorageError: a retriable one leaves the objects for the next attempt, another one has them deleted. Raises
    CopyDiscarded. An exception of `publish` passes through; the copy is then resumed, or collected.

    A broker that does not lead any more deletes its objects and writes no event. The new leader copies the segment itself.
    It may have deleted this copy already, and then nothing names the objects; else it collects the event. The objects of
    a resumed copy stay: COPY_SEGMENT_FINISHED of the first attempt may be under way, and the new leader then relies on them.
    """
    segment = plan.segment
    if not plan.is_resumed:
        publish(segment)
    try:
        custom_metadata = store.copy_log_segment_data(segment, plan.parts)
        size = len(custom_metadata or b"")
        if size > most_custom_metadata_bytes:
            segment = segment._replace(custom_metadata=custom_metadata)
            raise RemoteStorageError(f"{segment}: {size} bytes of custom metadata", retriable=False)
    except RemoteStorageError as error:
        if leads():
            if not error.retriable:
                delete_segment(segment, store, publish, clock, segment.broker_id)
        elif not plan.is_resumed:
            store.delete_log_segment_data(segment)
        raise
    if not plan.is_resumed and not leads():
        store.delete_log_segment_data(segment)
        raise CopyDiscarded(f"{segment} is not used: another broker leads")
    finished = _update(segment, COPY_SEGMENT_FINISHED, clock, segment.broker_id, custom_metadata)
    if publish(finished) is not Applied.APPLIED:
        store.delete_log_segment_data(segment)
        raise CopyDiscarded(f"{segment} was deleted while it was copied")
    return segment.updated(finished)


def delete_segment(
    segment: RemoteLogSegmentMetadata, store: RemoteStore, publish: Publish, clock: Clock, broker_id: int
) -> None:
    """Deletes a segment. Raises RemoteStorageError; the deletion is then done once more by the next pass."""
    custom_metadata = segment.custom_metadata
    publish(_update(segment, DELETE_SEGMENT_STARTED, clock, broker_id, custom_metadata))
    store.delete_log_segment_data(segment)
    publish(_update(segment, DELETE_SEGMENT_FINISHED, clock, broker_id, custom_metadata))


def deletion_events(
    segments: Collection[RemoteLogSegmentMetadata], *, has_ended: bool, now_ms: int, broker_id: int
) -> list[RemoteLogSegmentMetadataUpdate]:
    """Returns the first or the last event of each segment's deletion."""
    state = DELETE_SEGMENT_FINISHED if has_ended else DELETE_SEGMENT_STARTED
    return [_update(one, state, lambda: now_ms, broker_id, one.custom_metadata) for one in segments]


def _update(
    segment: RemoteLogSegmentMetadata,
    state: RemoteLogSegmentState,
    clock: Clock,
    broker_id: int,
    custom_metadata: bytes | None,
) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(
        segment.partition, segment.segment_id, broker_id, clock(), state, custom_metadata
    )
