"""Queues of one replica for threads: batches to check before they are appended, and flushes of its log.

- `AppendQueue`: batches that take too long to check on the event loop: large or compressed ones, and those that get
  another codec.
- `ReplicaFlush`: flushes for the callbacks that wait for the disk: `flush.messages`, and log maintenance.

Imported with the first batch or flush.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from ...protocol.errors import ErrorCode
from ...storage.files.open_files import LogDirectoryFailure
from .batch_validation import LARGE_BATCH_BYTES, CheckedBatch, Rejected, check_batch

if TYPE_CHECKING:
    from ...storage.log.log import Log, PendingFlush
    from ..runtime.thread_pools import ThreadPools
    from .batch_validation import AppendResult, AppendRules, QueuedAppend

log = logging.getLogger("odradek.partitions")


# ---- batches to check
#
# A small batch may decompress to a hundred megabytes of records. So a thread opens a copy of it (batch_validation.py), and
# the loop continues. A batch of many megabytes is not copied, and the loop writes it in parts, one in each turn. Later
# batches for the same partition queue behind it: a partition is written in the order in which its batches arrived, even
# if its configuration changes. A connection with a queued batch is paused (endpoints/produce.py), so each connection has
# one such request in memory; it counts as received until it is written.


class QueuedPartition(Protocol):
    """The partition that a queue belongs to."""

    pools: ThreadPools
    rules: AppendRules
    #: None when nothing is queued.
    queue: AppendQueue | None

    @property
    def name(self) -> str:
        """The topic's name and the index."""

    def write_ahead(self, checked: CheckedBatch, queued: QueuedAppend) -> bool:
        """Writes a part of a large batch. Returns whether `append_opened` is next."""

    def drop_ahead(self) -> None:
        """Removes what was written of a large batch that was not appended."""

    def append_opened(self, checked: CheckedBatch, queued: QueuedAppend) -> AppendResult:
        """Writes a checked batch when its turn has come."""

    def rejected(self, rejected: Rejected, size: int) -> AppendResult:
        """Returns the result for a rejected batch of so many bytes."""

    def refresh_append_state(self) -> None:
        """Refreshes state that depends on the queue."""


class AppendQueue:
    """The queue of one partition; it exists only while it has batches."""

    __slots__ = ("_hosted", "_is_writing", "_waiting")

    def __init__(self, hosted: QueuedPartition) -> None:
        self._hosted = hosted
        self._waiting: deque[QueuedAppend] = deque()
        #: Whether the first batch is being written in parts.
        self._is_writing = False

    def add(self, queued: QueuedAppend, records: Any, version: int) -> None:
        """Adds a batch. `records` is copied, unless it is large. `version` is that of the Produce request."""
        hosted = self._hosted
        kept = records if records is None or len(records) > LARGE_BATCH_BYTES else bytearray(records)
        check = partial(check_batch, kept, hosted.rules, version, queued.now_ms, hosted.name)
        self._waiting.append(queued)
        opening = hosted.pools.cpu.start(check)
        opening.add_done_callback(partial(self._opened, queued))

    def _opened(self, queued: QueuedAppend, opening: asyncio.Future[CheckedBatch]) -> None:
        queued.found = opening.exception() or opening.result()
        if not self._is_writing:
            self._write()

    def _write(self) -> None:
        """Writes the batches whose turn has come, of a large one the next part."""
        waiting, hosted = self._waiting, self._hosted
        while waiting and waiting[0].found is not None:
            first = waiting[0]
            found = first.found
            is_large = isinstance(found, CheckedBatch) and len(found.buffer) > LARGE_BATCH_BYTES
            if is_large and not hosted.write_ahead(cast(CheckedBatch, found), first):
                self._is_writing = True
                asyncio.get_running_loop().call_soon(self._write)
                return
            self._is_writing = False
            waiting.popleft()
            result = self._written(first)
            if is_large:
                hosted.drop_ahead()
            first.then(result)
        if not waiting:
            self._hosted.queue = None
            self._hosted.refresh_append_state()

    def _written(self, queued: QueuedAppend) -> AppendResult:
        found, hosted = queued.found, self._hosted
        if isinstance(found, CheckedBatch):
            return hosted.append_opened(found, queued)
        if not isinstance(found, Rejected):
            log.error("a bug: a batch for %s could not be opened", hosted.name, exc_info=found)
            found = Rejected(ErrorCode.UNKNOWN_SERVER_ERROR)
        return hosted.rejected(found, queued.size)


# ---- flushes
#
# A thread waits for the disk, with one flush in progress per log. Requests during a flush share the next one: many
# producers share a flush.

_NONE = int(ErrorCode.NONE)
_KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class FlushedReplica(Protocol):
    """The replica whose log is flushed."""

    log: Log
    pools: ThreadPools
    offline: bool
    is_removed: bool
    on_failure: Callable[[LogDirectoryFailure], None]
    #: None when nothing waits for the disk.
    flush: ReplicaFlush | None

    @property
    def name(self) -> str:
        """The topic's name and the partition's index."""


class ReplicaFlush:
    """The flushes of one replica; exists only while a callback waits for the disk."""

    __slots__ = ("_is_running", "_now_ms", "_replica", "_wanted")

    def __init__(self, replica: FlushedReplica) -> None:
        self._replica = replica
        self._wanted: deque[tuple[int, Callable[[int], object]]] = deque()
        self._is_running = False
        self._now_ms = 0

    def want(self, offset: int, now_ms: int, then: Callable[[int], object]) -> None:
        """Calls `then(0)` once everything below `offset` is on the disk, `then(error code)` when that is impossible."""
        self._wanted.append((offset, then))
        self._now_ms = now_ms
        if not self._is_running:
            self._go_on()

    def _go_on(self) -> None:
        """Calls the callbacks whose offsets are flushed or whose flush is impossible, and starts a flush for the
        others.
        """
        replica, flushed = self._replica, self._replica.log
        while self._wanted and not self._is_running:
            if replica.offline or replica.is_removed:
                self._complete(_KAFKA_STORAGE_ERROR if replica.offline else _NOT_LEADER_OR_FOLLOWER)
                continue
            try:
                pending = flushed.prepare_flush(max(offset for offset, _ in self._wanted))
            except LogDirectoryFailure as failure:
                replica.on_failure(failure)
                self._complete(_KAFKA_STORAGE_ERROR)
                continue
            if pending is None:
                self._complete(_NONE)
                continue
            self._is_running = True
            running = replica.pools.disk.start(pending.run)
            running.add_done_callback(partial(self._ran, flushed, pending))
        if not self._wanted:
            replica.flush = None

    def _ran(self, flushed: Log, pending: PendingFlush, running: asyncio.Future[None]) -> None:
        self._is_running = False
        replica, failure = self._replica, running.exception()
        if failure is None:
            flushed.flushed(pending, self._now_ms)
            if replica.log is flushed:
                self._complete_flushed(flushed)
        elif not isinstance(failure, LogDirectoryFailure):
            log.error("a bug: %s could not be flushed", replica.name, exc_info=failure)
            self._complete(_KAFKA_STORAGE_ERROR)
        elif not replica.is_removed and replica.log is flushed:
            # Otherwise its files may be gone: it was deleted, or moved to another directory, meanwhile.
            replica.on_failure(failure)
        self._go_on()

    def _complete_flushed(self, flushed: Log) -> None:
        """Calls callbacks. Records truncated meanwhile need not be waited for."""
        waiting, self._wanted = self._wanted, deque()
        for offset, then in waiting:
            if offset <= flushed.recovery_point:
                then(_NONE)
            elif offset > flushed.log_end_offset:
                then(_NOT_LEADER_OR_FOLLOWER)
            else:
                self._wanted.append((offset, then))

    def _complete(self, error: int) -> None:
        waiting, self._wanted = self._wanted, deque()
        for _, then in waiting:
            then(error)
