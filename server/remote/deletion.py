"""Deletions of all that the store has of a partition: its topic is deleted, or is not tiered any more.

The last leader of a deleted topic's partition writes DELETE_PARTITION_MARKED before it deletes anything, and
DELETE_PARTITION_FINISHED at the end. A deletion that was interrupted is resumed by

- the broker that began it, after a restart, where it reads that metadata partition,
- the leader of the metadata partition: at once if that broker is not alive, else after a time without an event.

A deletion may not have begun: the last leader was killed before its first event, or no replica was alive. So the leader of
the metadata partition looks for topics that have segments and are not in its image (`delete_abandoned`). It must not take a
topic that its image does not have yet for a deleted one. A topic is created before its segments, and its id is never used
again: an image that has everything that was committed when the last event was read, and not the topic, is later than its
deletion.

Two brokers may delete the same segments: a missing object counts as deleted, and the second event of a state has no effect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ...tiers.leader_tasks import deletion_events
from ...tiers.segment_metadata import (
    DELETE_PARTITION_FINISHED,
    DELETE_PARTITION_MARKED,
    DELETE_PARTITION_STARTED,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from ...tiers.store import RemoteStorageError
from .metadata_log import PublishFailed

if TYPE_CHECKING:
    from ...tiers.metadata_topic import Deletion
    from .work import RemoteWork

log = logging.getLogger("odradek.remote")

TASK = "deletions of remote parts"

#: A living broker's deletion is taken over after this time without an event of the partition: it has restarted, and does not
#: read the metadata partition any more. A call of the store may take as long as its own timeouts.
TAKE_OVER_S = 60.0
#: Topics that are gone are looked for so often. Their segments are deleted after this time: their last leaders need less,
#: and an operator may have restored the controllers from an old backup, which lacks topics.
SWEEP_S = 10.0
ABANDONED_S = 3_600.0
#: Segments whose deletion is one batch of events, and whose objects are deleted by one call of the store, or side by side by
#: `remote.log.manager.expiration.thread.pool.size` threads.
SEGMENTS_AT_A_TIME = 100
#: The image has everything that was committed so long ago, or nothing is deleted.
CURRENT_MS = 5_000


async def delete_segments(
    work: RemoteWork,
    partition: TopicIdPartition,
    segments: list[RemoteLogSegmentMetadata],
    may_go_on: Callable[[], bool],
    deleted: Callable[[RemoteLogSegmentMetadata], object] = lambda segment: None,
) -> None:
    """Deletes segments from the store, some at a time, and calls `deleted` after each. The events of those are one batch of
    the metadata topic. Raises RemoteStorageError and PublishFailed.
    """
    for first in range(0, len(segments), SEGMENTS_AT_A_TIME):
        if not may_go_on():
            return
        await _delete_some(work, partition, segments[first : first + SEGMENTS_AT_A_TIME], deleted)


async def _delete_some(
    work: RemoteWork,
    partition: TopicIdPartition,
    segments: list[RemoteLogSegmentMetadata],
    deleted: Callable[[RemoteLogSegmentMetadata], object],
) -> None:
    counters = work.counters.topic(partition.topic)
    counters.delete_requests += len(segments)
    done: list[RemoteLogSegmentMetadata] = []
    try:
        now_ms = work.clock.now_ms()
        await work.events.publish_all(deletion_events(segments, has_ended=False, now_ms=now_ms, broker_id=work.node_id))
        results = await _delete_objects(work, segments)
        failures = [result for result in results if isinstance(result, BaseException)]
        done = [one for one, result in zip(segments, results, strict=True) if not isinstance(result, BaseException)]
        now_ms = work.clock.now_ms()
        await work.events.publish_all(deletion_events(done, has_ended=True, now_ms=now_ms, broker_id=work.node_id))
    except BaseException:
        counters.delete_errors += len(segments)
        raise
    work.indexes.remove([one.segment_id for one in done])
    for one in done:
        log.info("%s: deleted %s", partition, one)
        deleted(one)
    counters.delete_errors += len(failures)
    if failures:
        raise failures[0]


async def _delete_objects(work: RemoteWork, segments: list[RemoteLogSegmentMetadata]) -> list[BaseException | None]:
    """Deletes the objects of segments. Returns what failed, by segment.

    A store that deletes many at once does so on one thread. Otherwise, and where that fails, threads delete them one by one,
    side by side: one that cannot be deleted does not keep the others.
    """
    delete_many = getattr(work.store, "delete_log_segments", None)
    if delete_many is not None:
        with suppress(RemoteStorageError):
            await work.expirers.run(delete_many, segments)
            return [None] * len(segments)
    calls = [work.expirers.run(work.store.delete_log_segment_data, one) for one in segments]
    return await asyncio.gather(*calls, return_exceptions=True)


async def _nothing() -> None:
    pass


class Deletions:
    """The deletions of partitions that this broker runs."""

    def __init__(self, work: RemoteWork) -> None:
        self._work = work
        self._tasks: dict[TopicIdPartition, asyncio.Task[None]] = {}
        #: The last event of other brokers' deletions, and the time at which this broker first saw that it is the last one.
        self._seen: dict[TopicIdPartition, tuple[int, float]] = {}
        #: Partitions with segments whose topic is not in the image, and the time since when it is not.
        self._gone: dict[TopicIdPartition, float] = {}
        self._next_sweep_s = 0.0

    def __contains__(self, partition: object) -> bool:
        return partition in self._tasks

    def begin(
        self,
        partition: TopicIdPartition,
        *,
        is_marked: bool,
        before: Callable[[], Awaitable[None]] = _nothing,
        may_go_on: Callable[[], bool] = lambda: True,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """Deletes what the store has of a partition. `is_marked`: with the events of a deleted topic. `before` is awaited
        once the deletion is marked. `done` is called at the end, unless the broker stops before.
        """
        if partition in self._tasks:
            return
        self._work.events.follow(partition)
        task = asyncio.create_task(
            self._run(partition, is_marked, before, may_go_on), name=f"remote deletion {partition}"
        )
        self._tasks[partition] = task

        def ended(_: asyncio.Task[None]) -> None:
            self._tasks.pop(partition, None)
            if not task.cancelled():
                done()

        task.add_done_callback(ended)

    def resume(self) -> None:
        """Begins again what this or another broker has begun and not ended."""
        work, left = self._work, dict[TopicIdPartition, tuple[int, float]]()
        for partition, deletion, leads in work.events.deletions():
            # Marks are of deleted topics. One that is still in the image is not touched.
            if partition in self._tasks or work.image.topic_by_id(partition.topic_id) is not None:
                continue
            if self._is_due(partition, deletion, leads, left):
                log.info("%s: the deletion that broker %d has begun is resumed", partition, deletion.broker_id)
                self.begin(partition, is_marked=True, done=lambda one=partition: work.events.unfollow(one))  # type: ignore[misc]
        self._seen = left

    def delete_abandoned(self) -> None:
        """Deletes segments of topics that are not in the image, and that no broker has begun to delete."""
        work, now_s = self._work, asyncio.get_running_loop().time()
        if now_s < self._next_sweep_s:
            return
        self._next_sweep_s = now_s + SWEEP_S
        if not work.has_commits_until(CURRENT_MS):
            self._gone = {}
            return
        begun = {partition for partition, _, _ in work.events.deletions()}
        gone: dict[TopicIdPartition, float] = {}
        for topic_id, partitions in work.events.stored():
            if work.image.topic_by_id(topic_id) is None:
                gone |= {one: self._gone.get(one, now_s) for one in partitions - begun if one not in self._tasks}
        self._gone = gone
        for partition, since_s in gone.items():
            if now_s - since_s >= ABANDONED_S:
                log.info("%s: the topic is gone, and its segments are deleted", partition)
                self.begin(partition, is_marked=True, done=lambda one=partition: work.events.unfollow(one))  # type: ignore[misc]

    def _is_due(
        self,
        partition: TopicIdPartition,
        deletion: Deletion,
        leads: bool,
        left: dict[TopicIdPartition, tuple[int, float]],
    ) -> bool:
        work = self._work
        if deletion.broker_id == work.node_id:
            return True
        owner = work.image.broker(deletion.broker_id)
        if not leads or owner is None or owner.fenced:
            return leads
        now_s = asyncio.get_running_loop().time()
        offset, since_s = self._seen.get(partition, (-1, now_s))
        left[partition] = deletion.offset, since_s if offset == deletion.offset else now_s
        return now_s - left[partition][1] >= TAKE_OVER_S

    async def _run(
        self,
        partition: TopicIdPartition,
        is_marked: bool,
        before: Callable[[], Awaitable[None]],
        may_go_on: Callable[[], bool],
    ) -> None:
        failures = 0
        while True:
            try:
                await self._delete(partition, is_marked, before, may_go_on)
                self._work.background.succeeded(TASK)
                return
            except (RemoteStorageError, PublishFailed) as failure:
                log.warning("%s: the deletion of its remote part: %s", partition, failure)
            except Exception as failure:
                self._work.background.failed(TASK, failure)
            failures += 1
            await asyncio.sleep(self._work.backoff_s(failures))

    async def _delete(
        self,
        partition: TopicIdPartition,
        is_marked: bool,
        before: Callable[[], Awaitable[None]],
        may_go_on: Callable[[], bool],
    ) -> None:
        followed = await self._work.events.ready(partition)
        if is_marked and followed.delete_state is None:
            await self._publish(partition, DELETE_PARTITION_MARKED)
        await before()
        if is_marked:
            await self._publish(partition, DELETE_PARTITION_STARTED)
        followed = await self._work.events.ready(partition)
        segments = followed.cache.segments()
        await delete_segments(self._work, partition, segments, may_go_on)
        if may_go_on():
            await self._work.uploads.abort_all(partition)
        if is_marked:
            await self._publish(partition, DELETE_PARTITION_FINISHED)

    async def _publish(self, partition: TopicIdPartition, state: RemotePartitionDeleteState) -> None:
        work = self._work
        await work.events.publish(RemotePartitionDeleteMetadata(partition, work.node_id, work.clock.now_ms(), state))

    async def stop(self) -> None:
        """Ends all deletions: they are resumed later. A call of the store goes on."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
