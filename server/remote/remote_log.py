"""A tiered partition on this broker: what its leader copies and deletes, and which local segments may go.

One pass of a leader: copies that are due, one after the other, then retention over both parts, then what a crash has left.
`tiers/` decides; a pass has the effects, which wait on threads. Before each effect the leader checks that it still leads.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING

from ...protocol.offsets import NO_OFFSET
from ...storage.log.retention import delete_old_segments
from ...tiers.leader_tasks import (
    CopyDiscarded,
    CopyLag,
    LeaderLog,
    NotCopyable,
    copy_segment,
    plan_collection,
    plan_copies,
)
from ...tiers.lineage import extended_epochs, highest_remote_offset, remote_start_offset
from ...tiers.reading import segment_at
from ...tiers.retained_segments import MOST_DELETIONS, RetainedSegments
from ...tiers.retention import Retention, only_local_bytes, plan_local_retention
from ...tiers.segment_metadata import COPY_SEGMENT_FINISHED, COPY_SEGMENT_STARTED, TopicIdPartition
from ...tiers.store import RemoteStorageError
from .deletion import delete_segments
from .metadata_log import PublishFailed

if TYPE_CHECKING:
    from ...metadata.configs.key_types import TopicValues
    from ...tiers.cache import RemoteLogMetadataCache
    from ...tiers.leader_tasks import CopyPlan
    from ...tiers.retention import RetentionPlan
    from ...tiers.segment_metadata import RemoteLogSegmentMetadata
    from ..partitions.hosted_partition import HostedPartition
    from .work import RemoteWork, TopicConfig

log = logging.getLogger("odradek.remote")

TASK = "tasks of remote logs"

_FROM_RETENTION = -2
#: A copy that another leader began is deleted when it is this old: its broker may still be writing it.
COPY_GRACE_MS = 3_600_000
#: The longest wait while a quota is exceeded, before the partition is looked at again.
MOST_QUOTA_WAIT_S = 5.0


class RemoteRules:
    """The values of a topic's configuration that its remote part obeys."""

    def __init__(self, values: TopicValues) -> None:
        self.is_copied = not values["remote.log.copy.disable"]
        total = Retention(values["retention.ms"], values["retention.bytes"])
        #: Without cleanup.policy=delete only the local part is limited.
        self.total = total if "delete" in values["cleanup.policy"] else Retention(-1, -1)
        local_ms, local_bytes = values["local.retention.ms"], values["local.retention.bytes"]
        self.local = Retention(
            total.ms if local_ms == _FROM_RETENTION else local_ms,
            total.bytes if local_bytes == _FROM_RETENTION else local_bytes,
        )
        lag_ms, lag_bytes = values["remote.copy.lag.ms"], values["remote.copy.lag.bytes"]
        self.lag = CopyLag(
            self.local.ms if lag_ms < 0 else lag_ms,
            self.local.bytes if lag_bytes < 0 else lag_bytes,
        )


class RemoteLog:
    """The remote part of a hosted partition."""

    def __init__(self, hosted: HostedPartition, work: RemoteWork) -> None:
        self.hosted = hosted
        self.partition = TopicIdPartition(hosted.topic_id, hosted.topic, hosted.index)
        self._work = work
        self.leads = False
        #: The epoch in which this broker leads, or did when the topic was deleted.
        self.epoch = -1
        self.has_start = False
        self._task: asyncio.Task[None] | None = None
        self.failures = 0
        self.not_before_s = 0.0
        #: Bytes and segments that wait for their copy, at the last pass.
        self.copy_lag_bytes = self.copy_lag_segments = 0
        #: Bytes and segments that retention condemns and the store still has, and the time that the last plan took.
        self.delete_lag_bytes = self.delete_lag_segments = 0
        self.size_computation_ms = 0.0
        self._last_reason = ""
        self._retained: RetainedSegments | None = None
        self._values: RemoteRules | None = None
        self._values_source: TopicConfig | None = None

    # The role.

    def take_role(self) -> None:
        """Follows the hosted partition's role. A new leader reads what its predecessor has written first."""
        role = self.hosted.role
        leads = role.is_leader and not self.hosted.offline
        if leads and (not self.leads or role.leader_epoch != self.epoch):
            self._work.events.reread_end(self.partition)
            self.has_start = False
        self.leads, self.epoch = leads, role.leader_epoch
        if not leads:
            self.copy_lag_bytes = self.copy_lag_segments = 0
            self.delete_lag_bytes = self.delete_lag_segments = 0

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads, in whichever epoch."""
        return self.leads and self.hosted.is_leader and not self.hosted.offline

    @property
    def still_leads(self) -> bool:
        hosted = self.hosted
        return self.leads and hosted.is_leader and hosted.leader_epoch == self.epoch and not hosted.offline

    @property
    def cache(self) -> RemoteLogMetadataCache | None:
        """The segments; None while their events are not read."""
        followed = self._work.events.followed(self.partition)
        return None if followed is None else followed.cache

    @property
    def values(self) -> RemoteRules:
        """The values of the topic's configuration, read again after a change of it or of the broker's."""
        source = self._work.topic_config(self.hosted.topic)
        if self._values is None or source != self._values_source:
            self._values_source = source
            self._values = RemoteRules(self._work.config.topic_values(source.overrides))
        return self._values

    def highest_remote_offset(self) -> int:
        cache, local = self.cache, self.hosted.open_log()
        if cache is None:
            return NO_OFFSET
        return highest_remote_offset(cache, local.epochs.entries(), local.log_end_offset).offset

    # Leader epochs.

    def restore_epochs(self) -> None:
        """Takes the epochs of the remote part from the metadata of its segments, if the log does not have them: its file was
        lost or damaged. Without them remote segments look like those of another history, which are deleted.
        """
        local, cache = self.hosted.open_log(), self.cache
        if cache is None or local.epochs.epoch_for_offset(local.log_start_offset) >= 0:
            return
        own = local.epochs.entries()
        found = extended_epochs(cache.segments(), own, local.local_log_start_offset)
        if found != own:
            local.restore_epochs(found)
            log.warning("%s: leader epochs before offset %d were read from the metadata of remote segments",
                        self.hosted.name, local.local_log_start_offset)  # fmt: skip

    def _knows_history(self, cache: RemoteLogMetadataCache) -> bool:
        """Returns whether the leader epochs lead back to the first record that the store has. Else segments of this log
        would be taken for those of another history, and deleted.
        """
        local = self.hosted.open_log()
        if local.epochs.epoch_for_offset(local.log_start_offset) >= 0:
            return True
        entries = local.epochs.entries()
        first = entries[0][1] if entries else local.log_end_offset
        return not any(one.state is COPY_SEGMENT_FINISHED and one.start_offset < first for one in cache.segments())

    # Local retention.

    def delete_local(self) -> int:
        """Removes local segments that retention condemns and the store has; returns their number. Rolls the active segment
        if it is the last one and beyond retention, for the leader to copy it.
        """
        hosted, local, now_ms = self.hosted, self.hosted.open_log(), self._work.clock.now_ms()
        cache, values = self.cache, self.values
        if cache is None:
            return 0
        if not values.is_copied:
            return self._delete_expired(now_ms)
        highest = highest_remote_offset(cache, local.epochs.entries(), local.log_end_offset).offset
        plan = plan_local_retention(
            local, highest, values.local, log_start_offset=local.log_start_offset, now_ms=now_ms,
            high_watermark=hosted.role.high_watermark,
        )  # fmt: skip
        count = plan.deletable
        if plan.rolls_active:
            local.roll(now_ms)
            log.info("%s: the active segment is rolled, since it is beyond local retention", hosted.name)
        # The epochs of removed batches are in the file of the epochs only, which a flush writes.
        while count and local.segments[count].base_offset > local.recovery_point:
            count -= 1
        if count:
            local.remove_first(count, now_ms, defer=True)
        return count

    def _delete_expired(self, now_ms: int) -> int:
        """Without copies the whole retention holds for the local part, and moves the start of the log (KIP-950)."""
        hosted, local = self.hosted, self.hosted.open_log()
        count = delete_old_segments(local, now_ms, hosted.role.high_watermark, defer=True, with_remote_part=True)
        if count:
            hosted.advance_log_start_offset(local.local_log_start_offset)
        return count

    # One pass of the leader.

    def begin_pass(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._task is None and self.still_leads and self.not_before_s <= now_s:
            self._task = asyncio.create_task(self._pass(), name=f"remote log {self.hosted.name}")

    async def _pass(self) -> None:
        try:
            await self._run()
            self.failures, self._last_reason = 0, ""
            self._work.background.succeeded(TASK)
        except (RemoteStorageError, PublishFailed, NotCopyable) as error:
            self._failed(str(error))
        except CopyDiscarded as error:
            log.info("%s: %s", self.hosted.name, error)
        except Exception as failure:
            self._failed(str(failure))
            self._work.background.failed(TASK, failure)
        finally:
            self._task = None

    def _failed(self, reason: str) -> None:
        self.failures += 1
        self.not_before_s = asyncio.get_running_loop().time() + self._work.backoff_s(self.failures)
        if reason != self._last_reason:
            log.warning("%s: the copy to or the deletion in the remote store failed and is tried again: %s",
                        self.hosted.name, reason)  # fmt: skip
        self._last_reason = reason

    async def _run(self) -> None:
        cache = self.cache
        if cache is None:
            return
        self.restore_epochs()
        if not self._knows_history(cache):
            raise NotCopyable(
                "leader epochs of records that the store has are lost: whether remote segments are of this log is not "
                "known, so none is copied or deleted"
            )
        self._find_start(cache)
        values = self.values
        plans = self._plan_copies(cache, values)
        for plan in plans:
            if not await self._copy(plan):
                return
        await self._expire(values)

    def _find_start(self, cache: RemoteLogMetadataCache) -> None:
        """Moves the start of a new leader's log up to what the store has: its own checkpoint may be old."""
        local = self.hosted.open_log()
        if not self.has_start:
            self.has_start = True
            if local.log_start_offset < local.local_log_start_offset:
                start = remote_start_offset(cache, local.epochs.entries())
                known = local.local_log_start_offset if start is None else min(start, local.local_log_start_offset)
                self.hosted.advance_log_start_offset(known)

    def _plan_copies(self, cache: RemoteLogMetadataCache, values: RemoteRules) -> list[CopyPlan]:
        local, work = self.hosted.open_log(), self._work
        if not values.is_copied:
            self.copy_lag_bytes = self.copy_lag_segments = 0
            return []
        highest = highest_remote_offset(cache, local.epochs.entries(), local.log_end_offset).offset
        waiting = [one for one in local.segments[:-1] if one.base_offset > highest]
        self.copy_lag_segments, self.copy_lag_bytes = len(waiting), sum(one.size for one in waiting)
        source = LeaderLog(self.partition, local, cache, work.node_id, work.copying)
        return plan_copies(source, self.hosted.last_stable_offset, work.clock.now_ms(), _new_id, values.lag)

    async def _copy(self, plan: CopyPlan) -> bool:
        """Copies one segment. Returns whether this broker still leads."""
        work = self._work
        while (wait_ms := work.copy_quota.wait_ms(work.clock.now_ms())) and self.still_leads:
            work.counters.copy_throttled_ms += wait_ms
            await asyncio.sleep(min(wait_ms / 1000, MOST_QUOTA_WAIT_S))
        if not self.still_leads or self.cache is None:
            return False
        work.copy_quota.record(plan.segment.size_bytes, work.clock.now_ms())
        remote = work.counters.topic(self.hosted.topic)
        remote.copy_requests += 1
        work.copying.add(plan.segment.segment_id)
        try:
            most = work.config.get("remote.log.metadata.custom.metadata.max.bytes")
            copied = await work.copiers.run(
                copy_segment, plan, work.store, work.publish_from_thread, work.clock.now_ms, lambda: self.is_leader, most
            )  # fmt: skip
        except BaseException:
            remote.copy_errors += 1
            raise
        finally:
            work.copying.discard(plan.segment.segment_id)
        remote.copy_bytes += copied.size_bytes
        self.copy_lag_segments = max(0, self.copy_lag_segments - 1)
        self.copy_lag_bytes = max(0, self.copy_lag_bytes - copied.size_bytes)
        log.info("%s: copied %s", self.hosted.name, copied)
        return self.still_leads

    async def _expire(self, values: RemoteRules) -> None:
        work = self._work
        while (plan := await self._plan_retention(values)) is not None:
            start = min(plan.log_start_offset, self.hosted.role.high_watermark)
            if start > self.hosted.log.log_start_offset:
                self.hosted.advance_log_start_offset(start)
            self.delete_lag_segments = len(plan.deletions)
            self.delete_lag_bytes = sum(one.size_bytes for one in plan.deletions)
            await delete_segments(work, self.partition, plan.deletions, lambda: self.still_leads, self._deleted)
            if len(plan.deletions) < MOST_DELETIONS:
                return

    async def _plan_retention(self, values: RemoteRules) -> RetentionPlan | None:
        """Returns what retention and interrupted copies condemn; None if this broker does not lead any more."""
        loop, local, work = asyncio.get_running_loop(), self.hosted.open_log(), self._work
        began_s = loop.time()
        retained = self._retained
        if retained is None or retained.cache is not self.cache:
            if self.cache is None:
                return None
            retained = self._retained = RetainedSegments(self.cache)
        for _ in retained.update_in_steps(local.epochs.entries(), local.log_end_offset):
            await asyncio.sleep(0)
        cache = self.cache
        if cache is not retained.cache or not self.still_leads:
            return None
        now_ms = work.clock.now_ms()
        highest = highest_remote_offset(cache, local.epochs.entries(), local.log_end_offset).offset
        plan = retained.plan(
            values.total, log_start_offset=local.log_start_offset, only_local_bytes=only_local_bytes(local, highest),
            now_ms=now_ms, copying=work.copying,
        )  # fmt: skip
        self.size_computation_ms = (loop.time() - began_s) * 1000
        interrupted = plan_collection(cache, [], work.copying, now_ms, COPY_GRACE_MS)
        return plan._replace(
            deletions=[*plan.deletions, *(one for one in interrupted if self._is_replaceable(cache, one))]
        )

    def _is_replaceable(self, cache: RemoteLogMetadataCache, segment: RemoteLogSegmentMetadata) -> bool:
        """Returns whether the records of a copy that has not ended are also on the disk or in another copy. The
        end of the copy may be an event that this release does not know.
        """
        local = self.hosted.open_log()
        if segment.state is not COPY_SEGMENT_STARTED or segment.end_offset < local.log_start_offset:
            return True
        start = max(segment.start_offset, local.log_start_offset)
        return start >= local.local_log_start_offset or segment_at(cache, local.epochs.entries(), start) is not None

    def _deleted(self, segment: RemoteLogSegmentMetadata) -> None:
        self.delete_lag_segments = max(0, self.delete_lag_segments - 1)
        self.delete_lag_bytes = max(0, self.delete_lag_bytes - segment.size_bytes)

    async def end(self) -> None:
        """Waits for the pass that is under way."""
        self.leads = False
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def cancel(self) -> None:
        """Ends the pass that is under way; a call of the store goes on."""
        if self._task is not None:
            self._task.cancel()

    def size_bytes(self) -> int:
        """Returns the bytes of copied segments."""
        cache = self.cache
        return 0 if cache is None else cache.copied_bytes


def _new_id() -> bytes:
    return secrets.token_bytes(16)
