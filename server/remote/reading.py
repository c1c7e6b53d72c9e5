"""Reads of the remote part of logs: whole batches for Fetch, and records by time for ListOffsets, on threads.

The loop finds the segment of an offset; a thread reads the store. A read whose fetch has been answered goes on, and the
same request finds its result: a store that is slower than `remote.fetch.max.wait.ms` then still serves its readers. Past
`remote.log.reader.max.pending.tasks` reads fail with a retriable error, and cost nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode
from ...storage.files.open_files import LogDirectoryFailure
from ...storage.log.epochs import epoch_of
from ...storage.log.log import OffsetOutOfRange
from ...storage.segments.damage import SegmentSuspected
from ...tiers.lineage import NO_EPOCH, common_end, segments_for_timestamp
from ...tiers.reading import (
    aborted_in_segment,
    find_by_timestamp,
    next_segment_with_aborted,
    read_segment,
    segment_at,
)
from ...tiers.store import DamagedRemoteObject, RemoteStorageError
from ..partitions.remote_port import RemoteRecords

if TYPE_CHECKING:
    from ...storage.segments.index import AbortedTransaction
    from ...storage.segments.segment import TimestampedOffset
    from ...tiers.segment_metadata import RemoteLogSegmentMetadata
    from ..partitions.hosted_partition import HostedPartition
    from .remote_log import RemoteLog
    from .work import RemoteWork

log = logging.getLogger("odradek.remote")

#: Results that no reader has taken: each has the bytes of a partition in a fetch.
MOST_KEPT = 16
#: A response that the client tries again after a refresh of its metadata.
_NOT_NOW = int(ErrorCode.REPLICA_NOT_AVAILABLE)
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
