"""Fetches that wait: for records, for a deadline, or for a thread that reads from the disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...storage.files.page_cache import pread_nowait
from .parked_requests import Parked

if TYPE_CHECKING:
    from ...storage.segments.batch_walk import Pread
    from ..runtime.thread_pools import ThreadPool
    from .hosted_partition import HostedPartition
    from .parked_requests import Deadlines, Wakeups
    from .sendable_records import NotInPageCache

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
