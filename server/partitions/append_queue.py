"""Batches of one replica that take too long to check on the event loop: large or compressed ones, and those that get
another codec. Imported with the first of them.

A small batch may decompress to a hundred megabytes of records. So a thread opens a copy of it (batch_validation.py), and
the loop continues. A batch of many megabytes is not copied, and the loop writes it in parts, one in each turn. Later
batches for the same partition queue behind it: a partition is written in the order in which its batches arrived, even
if its configuration changes. A connection with a queued batch is paused (produce/parked_produce.py), so each connection has
one such request in memory; it counts as received until it is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from ...protocol.errors import ErrorCode
from .append_rules import LARGE_BATCH_BYTES
from .batch_validation import CheckedBatch, Rejected, check_batch

if TYPE_CHECKING:
    from ...protocol.schema import Records
    from ..runtime.thread_pools import ThreadPools
    from .append_result import AppendResult, QueuedAppend
    from .append_rules import AppendRules

log = logging.getLogger("odradek.partitions")


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

    def add(self, queued: QueuedAppend, records: Records, version: int) -> None:
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
