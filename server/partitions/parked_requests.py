"""Requests that wait: for appends to partitions, for a deadline, or for a thread that reads the disk.

- `Parked`: a reply that waits for data in some partitions, for an offset to be committed, or for a deadline. It is
  registered with each partition that it waits for, so an append touches only the `Parked` of its partition.
- `Deadlines`: the deadlines of all `Parked`.
- `Wakeups`: the `Parked` that became ready in one turn of the event loop, completed together.
- `ParkedFetch`: the common part of fetches that wait; `sendable` prepares their record bytes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...storage.files.open_files import OPEN_FILES, OpenFile, pread_nowait
from ...storage.segments.segment import LogSlice
from ..runtime.clock import TIMER_RESOLUTION_S

if TYPE_CHECKING:
    from ...storage.segments.batches import Pread
    from ..runtime.thread_pools import ThreadPool
    from .hosted_partition import HostedPartition


# ---- replies that wait

log = logging.getLogger("odradek.waiters")

#: The granularity of deadlines; they never fire early. Kafka's timing wheel ticks each millisecond; its waits are
#: hundreds of milliseconds.
BUCKET_MS = 8
#: Longer waits get a timer of their own: the buckets are searched for the next one, and must stay few.
LONGEST_BUCKETED_WAIT_MS = 10_000
_NEVER = float("inf")


class Parked:
    """A waiting reply. `expired` is called at its deadline, unless it is removed before."""

    __slots__ = ("deadline",)

    def __init__(self) -> None:
        self.deadline: int | asyncio.TimerHandle | None = None

    def expired(self) -> None:
        raise NotImplementedError


class Deadlines:
    """The deadlines of waiting replies.

    A bucket goes with its last reply, and one timer serves all buckets. Most replies are given long before their deadline.
    Buckets that stayed until then would be the youngest objects of a busy broker at any time, spread over all memory that
    a large request leaves behind, and each would keep a megabyte of it.

    Deadlines are kept in buckets of a few milliseconds with one event loop timer for all. So parking and answering
    leave the timer alone unless the new deadline is the first.
    """

    __slots__ = ("_buckets", "_due", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Buckets are dicts for their order: in a simulation the same seed must give the same order.
        self._buckets: dict[int, dict[Parked, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        #: The bucket for which the timer is set: not after any that is there.
        self._due: float = _NEVER

    def add(self, parked: Parked, wait_ms: int) -> None:
        if wait_ms > LONGEST_BUCKETED_WAIT_MS:
            parked.deadline = self._loop.call_later(wait_ms / 1000 + TIMER_RESOLUTION_S, self._fire_one, parked)
            return
        due = int(self._loop.time() * 1000 + wait_ms) // BUCKET_MS + 1
        bucket = self._buckets.get(due)
        if bucket is None:
            self._buckets[due] = {parked: None}
            if due < self._due:
                self._set_timer(due)
        else:
            bucket[parked] = None
        parked.deadline = due

    def remove(self, parked: Parked) -> None:
        deadline, parked.deadline = parked.deadline, None
        if type(deadline) is int:
            bucket = self._buckets.get(deadline)
            if bucket is not None:  # else it is due now
                del bucket[parked]
                if not bucket:
                    del self._buckets[deadline]
        elif deadline is not None:
            deadline.cancel()  # type: ignore[union-attr]

    def _set_timer(self, due: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due * BUCKET_MS / 1000, self._fire, due)

    def _fire(self, due: int) -> None:
        self._timer = None
        self._due = -1  # what comes meanwhile sets no timer
        now = max(due, int(self._loop.time() * 1000) // BUCKET_MS)
        for one in sorted(one for one in self._buckets if one <= now):
            for parked in self._buckets.pop(one, ()):
                if parked.deadline == one:  # else a reply before it has removed it
                    parked.deadline = None
                    _contained(parked.expired)
        self._due = _NEVER
        if self._buckets:
            self._set_timer(min(self._buckets))

    def _fire_one(self, parked: Parked) -> None:
        parked.deadline = None
        parked.expired()


class Wakeups:
    """Collects what became ready in this turn of the loop and completes it once in the next turn. A Fetch that waits
    for ten partitions of one Produce is answered with all ten.
    """

    __slots__ = ("_loop", "_ready")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready: list[Callable[[], object]] = []

    def add(self, complete: Callable[[], object]) -> None:
        if not self._ready:
            self._loop.call_soon(self._run)
        self._ready.append(complete)

    def _run(self) -> None:
        ready, self._ready = self._ready, []
        for complete in ready:
            _contained(complete)


def _contained(function: Callable[[], object]) -> None:
    """Isolates failures: waiting replies are independent, so if one fails, the others are still answered."""
    try:
        function()
    except Exception:
        log.exception("a bug: a delayed response could not be sent")


# ---- fetches that wait
#
# Prepares record bytes for a response: copied, sent from the file, or first read into the page cache by a thread.

#: Up to this size, records are copied into the response: an extra system call for each piece costs more than a copy.
COPIED_BYTES = 64 * 1024
#: The limit while many files are held by responses that are still to be sent: smaller records are copied into the
#: response, so that it holds no file.
MOST_CROWDED_BYTES = 1 << 20
#: The number of bytes that a thread reads at once.
WARMED_BYTES = 1 << 20


class NotInPageCache(Exception):
    """The bytes are not in memory. A thread must call `read` to load them."""

    def __init__(self, read: Callable[[], object]) -> None:
        super().__init__()
        self.read = read


def sendable(records: LogSlice, *, may_wait: bool) -> Any:
    """Returns bytes, or the slice itself for the connection to send. Raises NotInPageCache unless waiting for the disk
    is allowed.
    """
    if records.size > (MOST_CROWDED_BYTES if OpenFile.count > OPEN_FILES.limit else COPIED_BYTES):
        if not may_wait and not in_page_cache(records):
            raise NotInPageCache(partial(warm, records))
        return records
    if may_wait:
        return records.bytes()
    piece = records.bytes_nowait()
    if piece is None:
        raise NotInPageCache(partial(warm, records))
    return piece


def in_page_cache(records: LogSlice) -> bool:
    """Returns whether both ends of a range are in the page cache; the bytes between were read or written with them."""
    last_page = records.position + records.size - 1
    try:
        for position in (records.position, last_page):
            if not pread_nowait(records.fd, 1, position):
                raise records.cut_short()
    except BlockingIOError:
        return False
    return True


def warm(records: LogSlice) -> None:
    """Reads a range into the page cache; waits for the disk."""
    end = records.position + records.size
    for position in range(records.position, end, WARMED_BYTES):
        os.pread(records.fd, min(WARMED_BYTES, end - position), position)


#: A fetch that found bytes outside the page cache is repeated when a thread has read them. After this many reads by a
#: thread the fetch itself blocks on the disk: under memory pressure the bytes may be gone again each time.
MOST_WARMINGS = 3


class FetchWaits:
    """The parts that a fetch waits for: its deadline, a change of a partition, a thread that reads from the disk."""

    __slots__ = ("deadlines", "disk", "wakeups")

    def __init__(self, deadlines: Deadlines, wakeups: Wakeups, disk: ThreadPool) -> None:
        self.deadlines = deadlines
        self.wakeups = wakeups
        #: Reads what is not in the page cache.
        self.disk = disk


class ParkedFetch(Parked):
    """A fetch that registers with partitions while it waits, and is repeated once after any number of their changes."""

    __slots__ = ("_hosts", "_is_last", "_is_warming", "_is_woken", "_pread", "_waits", "_warmings")

    def __init__(self, waits: FetchWaits) -> None:
        self.deadline = None  # what `Parked` sets: a call less for each fetch
        self._waits = waits
        #: The partitions on this broker that it requests.
        self._hosts: list[HostedPartition] = []
        #: Whether the next attempt is due, with however little there is.
        self._is_last = False
        self._is_woken = self._is_warming = False
        self._pread: Pread = pread_nowait
        self._warmings = 0

    def on_bytes_available(self, size: int) -> None:
        self.on_state_changed()

    def on_state_changed(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._waits.wakeups.add(self._continue)

    def expired(self) -> None:
        self._is_last = True
        if not self._is_woken and not self._is_warming:
            self._continue()

    def _continue(self) -> None:
        """Repeats the fetch, which is woken no longer."""
        raise NotImplementedError

    def _watch(self) -> None:
        """Waits for changes of the partitions."""
        for hosted in self._hosts:
            hosted.watchers[self] = None

    def _unwatch(self) -> None:
        for hosted in self._hosts:
            hosted.watchers.pop(self, None)

    def _warm(self, cold: NotInPageCache) -> None:
        """Has a thread read the bytes, then repeats the fetch."""
        self._is_warming = True
        self._warmings += 1
        if self._warmings >= MOST_WARMINGS:
            self._pread = os.pread
        self._waits.disk.run_then(cold.read, self._warmed)

    def _warmed(self, _: object) -> None:
        self._is_warming = False
        self._continue()
