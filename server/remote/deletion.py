"""Deletions of all that the store has of a partition: its topic is deleted, or is not tiered any more.

The last leader of a deleted topic's partition writes DELETE_PARTITION_MARKED before it deletes anything, and
DELETE_PARTITION_FINISHED at the end. A deletion that was interrupted is resumed by

- the broker that began it, after a restart, where it reads that metadata partition,
- the leader of the metadata partition: at once if that broker is not alive, else after a time without an event.

Two brokers may delete the same segments: a missing object counts as deleted, and the second event of a state has no effect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ...tiers.copying import delete_segment
from ...tiers.segment_metadata import (
    DELETE_PARTITION_FINISHED,
    DELETE_PARTITION_MARKED,
    DELETE_PARTITION_STARTED,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

if TYPE_CHECKING:
    from ...tiers.metadata_topic import Deletion
    from .work import RemoteWork

log = logging.getLogger("odradek.remote")

#: A living broker's deletion is taken over after this time without an event of the partition: it has restarted, and does not
#: read the metadata partition any more. A call of the store may take as long as its own timeouts.
TAKE_OVER_S = 60.0


async def delete_segments(
    work: RemoteWork,
    partition: TopicIdPartition,
    segments: list[RemoteLogSegmentMetadata],
    may_go_on: Callable[[], bool],
    deleted: Callable[[RemoteLogSegmentMetadata], object] = lambda segment: None,
) -> None:
    """Deletes segments from the store, in order, and calls `deleted` after each. Raises RemoteStorageError and
    PublishFailed.
    """
    counters = work.counters.topic(partition.topic)
    for segment in segments:
        if not may_go_on():
            return
        counters.delete_requests += 1
        try:
            await work.expirers.run(
                delete_segment, segment, work.store, work.publish_from_thread, work.clock.now_ms, work.node_id
            )
        except BaseException:
            counters.delete_errors += 1
            raise
        work.indexes.remove([segment.segment_id])
        log.info("%s: deleted %s", partition, segment)
        deleted(segment)


async def _nothing() -> None:
    pass


class Deletions:
    """The deletions of partitions that this broker runs."""

    def __init__(self, work: RemoteWork) -> None:
        self._work = work
        self._tasks: dict[TopicIdPartition, asyncio.Task[None]] = {}
        #: The last event of other brokers' deletions, and the time at which this broker first saw that it is the last one.
        self._seen: dict[TopicIdPartition, tuple[int, float]] = {}

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
                return
            except Exception as failure:
                failures += 1
                log.warning("%s: the deletion of its remote part: %s", partition, failure)
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
