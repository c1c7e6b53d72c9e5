"""A tiered partition on this broker: what its leader copies and deletes, which local segments may go, where a follower of it
begins, and the reads of its remote part.

One pass of a leader: copies that are due, one after the other, then retention over both parts, then what a crash has left.
`tiers/` decides; a pass has the effects, which wait on threads. Before each effect the leader checks that it still leads.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ...storage.files.open_files import LogDirectoryFailure
from ...storage.log.epochs import epoch_of
from ...storage.log.log import OffsetOutOfRange, delete_old_segments
from ...storage.segments.damage import SegmentSuspected
from ...tiers.cache import NO_OFFSET, RemoteLogMetadataCache
from ...tiers.indexes import fetch_auxiliary_state
from ...tiers.leader_tasks import (
    CopyDiscarded,
    CopyLag,
    CopyPlan,
    LeaderLog,
    NotCopyable,
    Retention,
    copy_segment,
    deletable_local_segments,
    only_local_bytes,
    plan_collection,
    plan_copies,
    plan_retention,
)
from ...tiers.lineage import (
    NO_EPOCH,
    common_end,
    extended_epochs,
    highest_remote_offset,
    remote_start_offset,
    segments_for_timestamp,
)
from ...tiers.reading import (
    aborted_in_segment,
    find_by_timestamp,
    next_segment_with_aborted,
    read_segment,
    segment_at,
)
from ...tiers.segment_metadata import COPY_SEGMENT_FINISHED, TopicIdPartition
from ...tiers.store import DamagedRemoteObject, RemoteStorageError
from ..partitions.remote_port import RemoteRecords
from .deletion import delete_segments
from .metadata_log import PublishFailed

if TYPE_CHECKING:
    from ...protocol.schema import Message
    from ...storage.segments.index import AbortedTransaction
    from ...storage.segments.segment import TimestampedOffset
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


class TopicValues:
    """The values of a topic's configuration that its remote part obeys."""

    def __init__(self, values: dict[str, Any]) -> None:
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
        self._values: TopicValues | None = None
        self._values_source: TopicConfig | None = None

    # ---- the role

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
    def values(self) -> TopicValues:
        """The values of the topic's configuration, read again after a change of it or of the broker's."""
        source = self._work.topic_config(self.hosted.topic)
        if self._values is None or source != self._values_source:
            self._values_source = source
            self._values = TopicValues(self._work.config.topic_values(source.overrides))
        return self._values

    def highest_remote_offset(self) -> int:
        cache, local = self.cache, self.hosted.log
        if cache is None:
            return NO_OFFSET
        return highest_remote_offset(cache, local.epochs.entries(), local.log_end_offset).offset

    # ---- leader epochs

    def restore_epochs(self) -> None:
        """Takes the epochs of the remote part from the metadata of its segments, if the log does not have them: its file was
        lost or damaged. Without them remote segments look like those of another history, which are deleted.
        """
        local, cache = self.hosted.log, self.cache
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
        local = self.hosted.log
        if local.epochs.epoch_for_offset(local.log_start_offset) >= 0:
            return True
        entries = local.epochs.entries()
        first = entries[0][1] if entries else local.log_end_offset
        return not any(one.state is COPY_SEGMENT_FINISHED and one.start_offset < first for one in cache.segments())

    # ---- local retention

    def delete_local(self) -> int:
        """Removes local segments that retention condemns and the store has; returns their number."""
        hosted, local, now_ms = self.hosted, self.hosted.log, self._work.clock.now_ms()
        cache, values = self.cache, self.values
        if cache is None or self._work.events.is_doubtful(self.partition):
            return 0
        if not values.is_copied:
            return self._delete_expired(now_ms)
        highest = highest_remote_offset(cache, local.epochs.entries(), local.log_end_offset).offset
        count = deletable_local_segments(
            local, highest, values.local, log_start_offset=local.log_start_offset, now_ms=now_ms,
            high_watermark=hosted.role.high_watermark,
        )  # fmt: skip
        # The epochs of removed batches are in the file of the epochs only, which a flush writes.
        while count and local.segments[count].base_offset > local.recovery_point:
            count -= 1
        if count:
            local.remove_first(count, now_ms, defer=True)
        return count

    def _delete_expired(self, now_ms: int) -> int:
        """Without copies the whole retention holds for the local part, and moves the start of the log (KIP-950)."""
        hosted, local = self.hosted, self.hosted.log
        count = delete_old_segments(local, now_ms, hosted.role.high_watermark, defer=True, with_remote_part=True)
        if count:
            hosted.advance_log_start_offset(local.local_log_start_offset)
        return count

    # ---- one pass of the leader

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
        if cache is None or self._work.events.is_doubtful(self.partition):
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
        local = self.hosted.log
        if not self.has_start:
            self.has_start = True
            if local.log_start_offset < local.local_log_start_offset:
                start = remote_start_offset(cache, local.epochs.entries())
                known = local.local_log_start_offset if start is None else min(start, local.local_log_start_offset)
                self.hosted.advance_log_start_offset(known)

    def _plan_copies(self, cache: RemoteLogMetadataCache, values: TopicValues) -> list[CopyPlan]:
        local, work = self.hosted.log, self._work
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

    async def _expire(self, values: TopicValues) -> None:
        cache, local, work = self.cache, self.hosted.log, self._work
        if cache is None or not self.still_leads:
            return
        epochs, now_ms = local.epochs.entries(), work.clock.now_ms()
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        highest = highest_remote_offset(cache, epochs, local.log_end_offset).offset
        plan = plan_retention(
            cache, epochs, values.total, log_start_offset=local.log_start_offset, log_end_offset=local.log_end_offset,
            only_local_bytes=only_local_bytes(local, highest), now_ms=now_ms, copying=work.copying,
        )  # fmt: skip
        self.size_computation_ms = (loop.time() - began_s) * 1000
        start = min(plan.log_start_offset, self.hosted.role.high_watermark)
        if start > local.log_start_offset:
            self.hosted.advance_log_start_offset(start)
        interrupted = plan_collection(cache, [], work.copying, now_ms, COPY_GRACE_MS)
        condemned = [*plan.deletions, *interrupted]
        self.delete_lag_segments, self.delete_lag_bytes = len(condemned), sum(one.size_bytes for one in condemned)
        await delete_segments(work, self.partition, condemned, lambda: self.still_leads, self._deleted)

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
        found = [] if cache is None else cache.segments()
        return sum(one.size_bytes for one in found if one.state is COPY_SEGMENT_FINISHED)


def _new_id() -> bytes:
    return secrets.token_bytes(16)


# ---- the start of a follower
#
# Its leader answered OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405, KIP-1023). The follower asks for the leader's local start, or
# for the first offset that is not in the store, and for the epoch of the record before it. The remote segment with that
# record has the leader epochs and the producers of its end, where the log then begins.


_PURPOSE = "remote follower"
_TIMEOUT_MS = 30_000
EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD = -2, -4, -6
_NOT_NOW = int(ErrorCode.REPLICA_NOT_AVAILABLE)


class _CannotStart(Exception):
    """The leader's response has an error, there is none, or the segment is not known yet."""


async def start_follower(work: RemoteWork, remote: RemoteLog, leader_start: int) -> int:
    """Returns an error code; the caller tries again. `leader_start`: the leader's log start offset, -1: not known."""
    counters = work.counters.topic(remote.hosted.topic)
    counters.aux_requests += 1
    try:
        await _start_behind_remote(work, remote, leader_start)
    except (_CannotStart, RemoteStorageError) as error:
        log.warning("%s: its start behind the remote part: %s", remote.hosted.name, error)
    except LogDirectoryFailure as failure:
        remote.hosted.on_failure(failure)
        return ErrorCode.KAFKA_STORAGE_ERROR
    except Exception as failure:
        log.exception("a bug: %s did not start behind its remote part", remote.hosted.name, exc_info=failure)
        counters.aux_errors += 1
        return ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        return ErrorCode.NONE
    counters.aux_errors += 1
    return _NOT_NOW


async def _start_behind_remote(work: RemoteWork, remote: RemoteLog, leader_start: int) -> None:
    hosted, epoch = remote.hosted, remote.hosted.leader_epoch
    pending = work.config.get("follower.fetch.last.tiered.offset.enable")
    offset, offset_epoch = await _leader_offset(work, remote, EARLIEST_PENDING_UPLOAD if pending else EARLIEST_LOCAL)
    if offset < 0:
        offset, offset_epoch = await _leader_offset(work, remote, EARLIEST_LOCAL)
    if leader_start < 0:
        leader_start, _ = await _leader_offset(work, remote, EARLIEST)
    if offset <= leader_start:  # nothing is in the store only
        _check_unchanged(remote, epoch)
        hosted.log.truncate_fully_and_start_at(offset, work.clock.now_ms())
        hosted.truncated()
        return
    cache = remote.cache
    if cache is None:
        raise _CannotStart("the metadata of its segments is not read yet")
    before = await _epoch_before(work, remote, offset, offset_epoch)
    segment = cache.segment_for(before, offset - 1)
    if segment is None:
        raise _CannotStart(f"no remote segment has offset {offset - 1} of epoch {before}")
    state = await work.followers.run(fetch_auxiliary_state, work.store, segment)
    _check_unchanged(remote, epoch)
    hosted.log.begin_after_remote(state.start_offset, work.clock.now_ms(), leader_start, state.epochs, state.producers)
    hosted.truncated()
    log.info("%s: begins at offset %d, behind %s", hosted.name, state.start_offset, segment)


def _check_unchanged(remote: RemoteLog, epoch: int) -> None:
    hosted = remote.hosted
    if hosted.is_removed or hosted.offline or hosted.is_leader or hosted.leader_epoch != epoch:
        raise _CannotStart("the partition has another leader")


async def _leader_offset(work: RemoteWork, remote: RemoteLog, timestamp: int) -> tuple[int, int]:
    """Returns (offset, epoch) of the leader's response to ListOffsets."""
    hosted = remote.hosted
    asked = ListOffsetsPartition(hosted.index, hosted.leader_epoch, timestamp)
    request = ListOffsetsRequest(replica_id=work.node_id, topics=[ListOffsetsTopic(hosted.topic, [asked])])
    found = (await _ask_leader(work, remote, request)).topics[0].partitions[0]
    if found.error_code:
        raise _CannotStart(f"the leader's response is {ErrorCode(found.error_code).name}")
    return found.offset, found.leader_epoch


async def _epoch_before(work: RemoteWork, remote: RemoteLog, offset: int, epoch: int) -> int:
    """Returns the epoch of the record before `offset`, at which `epoch` is the leader's."""
    if epoch <= 0:
        return max(epoch, 0)
    hosted = remote.hosted
    asked = OffsetForLeaderPartition(hosted.index, hosted.leader_epoch, epoch - 1)
    request = OffsetForLeaderEpochRequest(work.node_id, [OffsetForLeaderTopic(hosted.topic, [asked])])
    found = (await _ask_leader(work, remote, request)).topics[0].partitions[0]
    if found.error_code:
        raise _CannotStart(f"the leader's response is {ErrorCode(found.error_code).name}")
    earlier: int = found.leader_epoch
    return earlier if found.end_offset >= offset else epoch


async def _ask_leader(work: RemoteWork, remote: RemoteLog, request: Message) -> Any:
    endpoint = work.leaders.other_leader(remote.hosted.topic, remote.hosted.index)
    if endpoint is None:
        raise _CannotStart("the partition has no leader")
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def reply(response: Any) -> None:
        if not answered.done():
            answered.set_result(response)

    work.peers().send(endpoint, request, reply, timeout_ms=_TIMEOUT_MS, purpose=_PURPOSE)
    response = await answered
    if response is None:
        raise _CannotStart(f"{endpoint.address} does not respond")
    return response


# ---- reads: whole batches for Fetch, and records by time for ListOffsets, on threads
#
# The loop finds the segment of an offset; a thread reads the store. A read whose fetch has been answered goes on, and the
# same request finds its result: a store that is slower than `remote.fetch.max.wait.ms` then still serves its readers. Past
# `remote.log.reader.max.pending.tasks` reads fail with a retriable error, and cost nothing.

#: Results that no reader has taken: each has the bytes of a partition in a fetch.
MOST_KEPT = 16
_OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)


class _Key(NamedTuple):
    topic_id: bytes
    partition: int
    offset: int
    max_bytes: int
    isolated: bool


class RemoteReader:
    """The reads of one broker."""

    def __init__(self, work: RemoteWork) -> None:
        self._work = work
        self._pending: dict[_Key, list[Callable[[RemoteRecords], None]]] = {}
        self._kept: dict[_Key, RemoteRecords] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def read(
        self, remote: RemoteLog, offset: int, max_bytes: int, *, isolated: bool, done: Callable[[RemoteRecords], None]
    ) -> Callable[[], object]:
        """Calls `done` later, once. Returns what withdraws the call."""
        loop, hosted = asyncio.get_running_loop(), remote.hosted
        key = _Key(hosted.topic_id, hosted.index, offset, max_bytes, isolated)
        waiting = self._pending.get(key)
        if waiting is None:
            counters = self._work.counters.topic(hosted.topic)
            counters.fetch_requests += 1
            wait_ms = self._work.fetch_quota.wait_ms(self._work.clock.now_ms())
            if wait_ms:  # an empty response; the reader asks again (KIP-956)
                self._work.counters.fetch_throttled_ms += wait_ms
                return loop.call_soon(done, RemoteRecords(0, next_offset=offset)).cancel
            if len(self._pending) >= self._work.config.get("remote.log.reader.max.pending.tasks"):
                counters.fetch_errors += 1
                return loop.call_soon(done, RemoteRecords(_NOT_NOW)).cancel
            waiting = self._pending[key] = []
            self._start(self._read(key, remote))
        waiting.append(done)
        return lambda: waiting.remove(done) if done in waiting else None

    def take_finished(
        self, hosted: HostedPartition, offset: int, max_bytes: int, *, isolated: bool
    ) -> RemoteRecords | None:
        """Returns, once, the result of a read whose reader had gone when it ended."""
        return self._kept.pop(_Key(hosted.topic_id, hosted.index, offset, max_bytes, isolated), None)

    def _start(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, key: _Key, remote: RemoteLog) -> None:
        counters = self._work.counters.topic(remote.hosted.topic)
        began_s = asyncio.get_running_loop().time()
        try:
            found = await self._found(key, remote)
        except DamagedRemoteObject as damage:
            log.error("%s: %s", remote.hosted.name, damage)
            found = RemoteRecords(ErrorCode.CORRUPT_MESSAGE)
        except RemoteStorageError as error:
            log.warning("%s: offset %d: %s", remote.hosted.name, key.offset, error)
            is_gone = key.offset < remote.hosted.log_start_offset
            found = RemoteRecords(_OUT_OF_RANGE if is_gone else _NOT_NOW)
        except Exception as failure:
            log.exception("a bug: a remote read of %s failed", remote.hosted.name, exc_info=failure)
            found = RemoteRecords(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._work.counters.reads += 1
        self._work.counters.read_ms += (asyncio.get_running_loop().time() - began_s) * 1000
        if found.error:
            counters.fetch_errors += 1
        else:
            counters.fetch_bytes += len(found.data)
            self._work.fetch_quota.record(len(found.data), self._work.clock.now_ms())
        waiting = self._pending.pop(key)
        if not waiting and not found.error:
            self._kept[key] = found
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        for done in waiting:
            done(found)

    async def _found(self, key: _Key, remote: RemoteLog) -> RemoteRecords:
        offset, work, hosted = key.offset, self._work, remote.hosted
        while offset < hosted.log.local_log_start_offset:
            segment = self._segment(remote, offset)
            if isinstance(segment, int):
                return RemoteRecords(segment)
            end = common_end(segment, hosted.log.epochs.entries(), offset)
            read = await work.readers.run(
                partial(read_segment, work.store, work.indexes, segment, offset, key.max_bytes, up_to_offset=end)
            )
            if len(read.data):
                aborted = await self._aborted(remote, segment, offset, read.next_offset) if key.isolated else None
                return RemoteRecords(0, read.data, read.next_offset, aborted)
            offset = read.next_offset  # compaction has left nothing at the end of the segment
        return RemoteRecords(0, next_offset=offset)

    def _segment(self, remote: RemoteLog, offset: int) -> RemoteLogSegmentMetadata | int:
        """Returns the segment that has the offset, or an error code."""
        cache, local = remote.cache, remote.hosted.log
        if cache is None:
            return _NOT_NOW
        epochs = local.epochs.entries()
        if not local.log_start_offset <= offset:
            return _OUT_OF_RANGE
        if epoch_of(epochs, offset) == NO_EPOCH:
            remote.restore_epochs()
            epochs = local.epochs.entries()
        if epoch_of(epochs, offset) == NO_EPOCH:
            return _NOT_NOW
        segment = segment_at(cache, epochs, offset)
        if segment is not None:
            return segment
        # The records are neither here nor there. A new leader's log start moves with its first pass.
        return _NOT_NOW if self._work.events.is_doubtful(remote.partition) or not remote.has_start else _OUT_OF_RANGE

    async def _aborted(
        self, remote: RemoteLog, segment: RemoteLogSegmentMetadata, offset: int, up_to: int
    ) -> list[AbortedTransaction]:
        """Returns the aborted transactions of the range: of remote segments, then of local ones."""
        work, local = self._work, remote.hosted.log
        found: list[AbortedTransaction] = []
        current: RemoteLogSegmentMetadata | None = segment
        after = offset
        while current is not None:
            part, is_all, after = await work.readers.run(
                aborted_in_segment, work.indexes, current, offset, up_to, local.epochs.entries(), after
            )
            found += part
            cache = remote.cache
            if is_all:
                return found
            current = None if cache is None else next_segment_with_aborted(cache, local.epochs.entries(), after)
        # Local segments may be copied too: an entry is taken once.
        found += [one for one in local.aborted_transactions(offset, up_to) if one not in found]
        return found

    # ---- by time

    def find(self, remote: RemoteLog, timestamp: int, done: Callable[[int, TimestampedOffset | None], None]) -> None:
        self._start(self._find(remote, timestamp, done))

    async def _find(
        self, remote: RemoteLog, timestamp: int, done: Callable[[int, TimestampedOffset | None], None]
    ) -> None:
        try:
            error, found = await self._searched(remote, timestamp)
        except (RemoteStorageError, SegmentSuspected, LogDirectoryFailure, OffsetOutOfRange) as failure:
            log.warning("%s: the search for timestamp %d: %s", remote.hosted.name, timestamp, failure)
            error, found = _NOT_NOW, None
        except Exception as failure:
            log.exception("a bug: a search in the remote part of %s failed", remote.hosted.name, exc_info=failure)
            error, found = int(ErrorCode.UNKNOWN_SERVER_ERROR), None
        done(error, found)

    async def _searched(self, remote: RemoteLog, timestamp: int) -> tuple[int, TimestampedOffset | None]:
        cache, local, work = remote.cache, remote.hosted.log, self._work
        if cache is None:
            return _NOT_NOW, None
        start = local.log_start_offset
        segments = list(
            segments_for_timestamp(
                cache,
                local.epochs.entries(),
                timestamp,
                log_start_offset=start,
                log_end_offset=local.log_end_offset,
                local_log_start_offset=local.local_log_start_offset,
            )
        )
        for segment in segments:
            found = await work.readers.run(find_by_timestamp, work.store, work.indexes, segment, timestamp, start)
            if found is not None:
                return 0, found
        return 0, None

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.done()

    async def done(self) -> None:
        """Waits for the reads that are under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
