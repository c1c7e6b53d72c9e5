"""Flushes of one replica's log for the callbacks that wait for the disk: `flush.messages`, and log maintenance.

A thread waits for the disk, with one flush in progress per log. Requests during a flush share the next one: many
producers share a flush.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import ErrorCode
from ...storage.files.failures import LogDirectoryFailure

if TYPE_CHECKING:
    from ...storage.log.flushing import PendingFlush
    from ...storage.log.log import Log
    from ...storage.log.unopened import UnopenedLog
    from ..runtime.thread_pools import ThreadPools

log = logging.getLogger("odradek.partitions")

_NONE = int(ErrorCode.NONE)
_KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class FlushedReplica(Protocol):
    """The replica whose log is flushed."""

    log: Log | UnopenedLog
    pools: ThreadPools
    offline: bool
    is_removed: bool
    on_failure: Callable[[LogDirectoryFailure], None]
    #: None when nothing waits for the disk.
    flush: ReplicaFlush | None

    def open_log(self) -> Log:
        """Returns the log, opened."""

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
            self._advance()

    def _advance(self) -> None:
        """Calls the callbacks whose offsets are flushed or whose flush is impossible, and starts a flush for the
        others.
        """
        replica, flushed = self._replica, self._replica.open_log()
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
        self._advance()

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
