"""Reads of the remote parts of a broker's logs: whole batches for Fetch, and records by time for ListOffsets, on threads.

The loop finds the segment of an offset; a thread reads the store. A read waits for the quota of reads (KIP-956) and for room
in the budget of memory (read_budget.py). A read whose fetch has been answered goes on, and the same request finds its result
for KEPT_S: a store that is slower than `remote.fetch.max.wait.ms` then still serves its readers. Past
`remote.log.reader.max.pending.tasks` reads under way, further ones fail with a retriable error, and cost nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode
from ...storage.files.failures import LogDirectoryFailure
from ...storage.log.epochs import epoch_of
from ...storage.log.log import OffsetOutOfRange
from ...storage.segments.damage import SegmentSuspected
from ...tiers.lineage import NO_EPOCH, common_end
from ...tiers.listed_offsets import segments_for_timestamp
from ...tiers.reading import (
    MOST_BATCH_BYTES,
    RemoteRead,
    aborted_in_segment,
    find_by_timestamp,
    next_segment_with_aborted,
    read_segment,
    segment_at,
)
from ...tiers.store import DamagedRemoteObject, RemoteStorageError
from ..partitions.remote_port import RemoteRecords
from ..runtime.lent_memory import LentMemory
from ..runtime.memory import LARGE_BYTES, release_after
from .read_budget import ReadBudget

if TYPE_CHECKING:
    from ...storage.segments.aborted import AbortedTransaction
    from ...storage.segments.timestamps import TimestampedOffset
    from ...tiers.index_cache import IndexCache
    from ...tiers.segment_metadata import RemoteLogSegmentMetadata
    from ...tiers.store import RemoteStore
    from ..partitions.hosted_partition import HostedPartition
    from .remote_log import RemoteLog
    from .work import RemoteWork

log = logging.getLogger("odradek.remote")

#: A result that no request has taken is dropped after this time: a consumer asks again within its `fetch.max.wait.ms`.
KEPT_S = 10.0
_NOT_NOW = int(ErrorCode.REPLICA_NOT_AVAILABLE)
_OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)


class _Key(NamedTuple):
    topic_id: bytes
    partition: int
    offset: int
    max_bytes: int
    isolated: bool


def _read_to_lend(
    store: RemoteStore, indexes: IndexCache, segment: RemoteLogSegmentMetadata, offset: int, max_bytes: int, end: int
) -> RemoteRead:
    """Reads a segment, for a thread. The result is lent memory."""
    found = read_segment(store, indexes, segment, offset, max_bytes, up_to_offset=end)
    return found._replace(data=LentMemory.of(found.data)) if len(found.data) else found


class RemoteReader:
    """The reads of one broker."""

    def __init__(self, work: RemoteWork) -> None:
        self._work = work
        self.budget = ReadBudget(work.config, self._drop_kept)
        #: Those who wait for each read.
        self._pending: dict[_Key, list[Callable[[RemoteRecords], None]]] = {}
        #: Results that no request has taken, and the timer that drops each.
        self._kept: dict[_Key, tuple[RemoteRecords, asyncio.TimerHandle]] = {}
        self._running = 0
        self._read_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def throttled_ms(self) -> int:
        """Returns how long reads wait for their quota; 0: they do not."""
        return self._work.fetch_quota.wait_ms(self._work.clock.now_ms())

    def read(
        self, remote: RemoteLog, offset: int, max_bytes: int, *, isolated: bool, done: Callable[[RemoteRecords], None]
    ) -> Callable[[], object]:
        """Calls `done` later, once. Returns what withdraws the call."""
        loop = asyncio.get_running_loop()
        key = self._key(remote.hosted, offset, max_bytes, isolated=isolated)
        waiting = self._pending.get(key)
        if waiting is None:
            counters = self._work.counters.topic(remote.hosted.topic)
            counters.fetch_requests += 1
            if self._running >= self._work.config.get("remote.log.reader.max.pending.tasks"):
                counters.fetch_errors += 1
                return loop.call_soon(done, RemoteRecords(_NOT_NOW)).cancel
            waiting = self._pending[key] = []
            waiting.append(done)
            self._await_quota(key, remote)
        else:
            waiting.append(done)
        return partial(self._withdraw, key, done)

    def _withdraw(self, key: _Key, done: Callable[[RemoteRecords], None]) -> None:
        waiting = self._pending.get(key)
        if waiting is not None and done in waiting:
            waiting.remove(done)
            if not waiting and self.budget.withdraw(key):
                del self._pending[key]

    def _key(self, hosted: HostedPartition, offset: int, max_bytes: int, *, isolated: bool) -> _Key:
        return _Key(hosted.topic_id, hosted.index, offset, min(max_bytes, self.budget.most_read_bytes), isolated)

    def _await_quota(self, key: _Key, remote: RemoteLog) -> None:
        """Has the read wait for its quota, then for memory."""
        wait_ms = self.throttled_ms()
        if wait_ms:
            self._work.counters.fetch_throttled_ms += wait_ms
            asyncio.get_running_loop().call_later(wait_ms / 1000, self._await_quota, key, remote)
        elif not self._pending[key]:  # all requests have withdrawn
            del self._pending[key]
        else:
            # The first batch is read whole.
            size = max(key.max_bytes, min(remote.hosted.log.config.max_message_bytes, MOST_BATCH_BYTES))
            self.budget.reserve(key, size, partial(self._begin, key, remote, size))

    def take_finished(
        self, hosted: HostedPartition, offset: int, max_bytes: int, *, isolated: bool
    ) -> RemoteRecords | None:
        """Returns, once, the result of a read whose reader had gone when it ended."""
        found = self._kept.pop(self._key(hosted, offset, max_bytes, isolated=isolated), None)
        if found is None:
            return None
        found[1].cancel()
        return found[0]

    def _drop_kept(self) -> bool:
        """Drops the oldest result that no request has taken. Returns whether there was one."""
        if not self._kept:
            return False
        _, timer = self._kept.pop(next(iter(self._kept)))
        timer.cancel()
        return True

    def _start(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin(self, key: _Key, remote: RemoteLog, reserved: int) -> None:
        self._running += 1
        self._start(self._read(key, remote, reserved))

    async def _read(self, key: _Key, remote: RemoteLog, reserved: int) -> None:
        began_s = asyncio.get_running_loop().time()
        found = RemoteRecords(_NOT_NOW)
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
        finally:
            self._running -= 1
            self.budget.lend(reserved, found.data)
        self._ended(key, remote, found, (asyncio.get_running_loop().time() - began_s) * 1000)

    def _ended(self, key: _Key, remote: RemoteLog, records: RemoteRecords, took_ms: float) -> None:
        work = self._work
        counters = work.counters.topic(remote.hosted.topic)
        work.counters.reads += 1
        work.counters.read_ms += took_ms
        if records.error:
            counters.fetch_errors += 1
        else:
            counters.fetch_bytes += len(records.data)
            work.fetch_quota.record(len(records.data), work.clock.now_ms())
        self._read_bytes += len(records.data)
        if self._read_bytes >= LARGE_BYTES and not self._running:
            # Threads have copied their results into lent memory; the heap keeps the bytes that they read.
            release_after(self._read_bytes)
            self._read_bytes = 0
        waiting = self._pending.pop(key)
        if not waiting and not records.error:
            timer = asyncio.get_running_loop().call_later(KEPT_S, self._kept.pop, key, None)
            self._kept[key] = records, timer
        for done in waiting:
            done(records)

    async def _found(self, key: _Key, remote: RemoteLog) -> RemoteRecords:
        offset, work, hosted = key.offset, self._work, remote.hosted
        while offset < hosted.log.local_log_start_offset:
            segment = self._segment(remote, offset)
            if isinstance(segment, int):
                return RemoteRecords(segment)
            end = common_end(segment, hosted.open_log().epochs.entries(), offset)
            read = await work.readers.run(_read_to_lend, work.store, work.indexes, segment, offset, key.max_bytes, end)
            if len(read.data):
                aborted = await self._aborted(remote, segment, offset, read.next_offset) if key.isolated else None
                return RemoteRecords(0, read.data, read.next_offset, aborted)
            offset = read.next_offset  # compaction has left nothing at the end of the segment
        return RemoteRecords(0, next_offset=offset)

    def _segment(self, remote: RemoteLog, offset: int) -> RemoteLogSegmentMetadata | int:
        """Returns the segment that has the offset, or an error code."""
        cache, local = remote.cache, remote.hosted.open_log()
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
        return _OUT_OF_RANGE if remote.has_start else _NOT_NOW

    async def _aborted(
        self, remote: RemoteLog, segment: RemoteLogSegmentMetadata, offset: int, up_to: int
    ) -> list[AbortedTransaction]:
        """Returns the aborted transactions of the range: of remote segments, then of local ones."""
        work, local = self._work, remote.hosted.open_log()
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

    # By time.

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
        cache, local, work = remote.cache, remote.hosted.open_log(), self._work
        if cache is None:
            return _NOT_NOW, None
        start = local.log_start_offset
        segments = segments_for_timestamp(
            cache,
            local.epochs.entries(),
            timestamp,
            log_start_offset=start,
            log_end_offset=local.log_end_offset,
            local_log_start_offset=local.local_log_start_offset,
        )
        for segment in segments:
            found = await work.readers.run(find_by_timestamp, work.store, work.indexes, segment, timestamp, start)
            if found is not None:
                return 0, found
        return 0, None

    async def stop(self) -> None:
        self.budget.stop()
        while self._drop_kept():
            pass
        for task in self._tasks:
            task.cancel()
        await self.done()

    async def done(self) -> None:
        """Waits for the reads that are under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
