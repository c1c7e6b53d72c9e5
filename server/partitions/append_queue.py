"""Queues batches that take too long to check on the event loop: large or compressed ones, and those that get another
codec.

A small batch may decompress to a hundred megabytes of records. So a thread opens a copy of it (opening.py), and the
loop continues. Later batches for the same partition queue behind it: a partition is written in the order in which its
batches arrived, even if its configuration changes. A connection with a queued batch is paused (handlers/produce.py), so
each connection has one such request in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode
from .batch_validation import CheckedBatch, Refused, check_batch

if TYPE_CHECKING:
    from .hosted_partition import AppendResult, HostedPartition

log = logging.getLogger("odradek.partitions")


class QueuedAppend:
    """A batch in the queue. `then` must be set in the turn in which the batch was queued."""

    __slots__ = ("found", "is_in_transaction", "now_ms", "required_acks", "size", "then")

    def __init__(self, size: int, now_ms: int, required_acks: int, *, is_in_transaction: bool) -> None:
        self.size = size
        self.now_ms = now_ms
        self.required_acks = required_acks
        self.is_in_transaction = is_in_transaction
        #: The thread's result, once it is done.
        self.found: CheckedBatch | BaseException | None = None
        self.then: Callable[[AppendResult], object] = _forget


class AppendQueue:
    """The queue of one partition; it exists only while it has batches."""

    __slots__ = ("_hosted", "_waiting")

    def __init__(self, hosted: HostedPartition) -> None:
        self._hosted = hosted
        self._waiting: deque[QueuedAppend] = deque()

    def add(self, queued: QueuedAppend, records: Any, version: int) -> None:
        """Adds a batch. `records` is copied. `version` is that of the Produce request."""
        hosted = self._hosted
        copy = None if records is None else bytearray(records)
        check = partial(check_batch, copy, hosted.rules, version, queued.now_ms, hosted.name)
        self._waiting.append(queued)
        opening = asyncio.get_running_loop().run_in_executor(hosted.pools.cpu, check)
        opening.add_done_callback(partial(self._opened, queued))

    def _opened(self, queued: QueuedAppend, opening: asyncio.Future[CheckedBatch]) -> None:
        queued.found = opening.exception() or opening.result()
        waiting = self._waiting
        while waiting and waiting[0].found is not None:
            first = waiting.popleft()
            first.then(self._written(first))
        if not waiting:
            self._hosted.queue = None
            self._hosted.settle()

    def _written(self, queued: QueuedAppend) -> AppendResult:
        found, hosted = queued.found, self._hosted
        if isinstance(found, CheckedBatch):
            return hosted.append_opened(found, queued)
        if not isinstance(found, Refused):
            log.error("a bug: a batch for %s could not be opened", hosted.name, exc_info=found)
            found = Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        return hosted.refused(found, queued.size)


def _forget(_: AppendResult) -> None:
    """Ignores the result."""
