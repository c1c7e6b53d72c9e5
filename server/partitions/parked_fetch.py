"""The common part of fetches that wait: for appends to partitions, for a deadline, or for a thread that reads the
disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...storage.files.open_files import OPEN_FILES, OpenFile, pread_nowait
from ...storage.segments.segment import LogSlice
from ..runtime.clock import Deadlines, Parked, Wakeups

if TYPE_CHECKING:
    from ...storage.segments.batch_walk import Pread
    from ..runtime.thread_pools import ThreadPool
    from .hosted_partition import HostedPartition


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
