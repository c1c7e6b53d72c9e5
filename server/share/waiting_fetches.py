"""Fetches that wait for records of a share partition, first come first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


# The fetches that wait for records of one share partition: as many are woken as there are records for, in their order.
#
# A state change wakes fetches until the records that they want are as many as those that are available. A woken fetch
# looks once, and then has left, waits on, or reads from the disk. Each of these passes the wake on: when records are
# left, the next fetches are woken. So no record waits for a fetch that took nothing: one whose connection is closed, one
# that wants more bytes, or one that finds all records archived.
#
# A fetch that could take none of the available records goes to the end, and is not woken again before the next change.
# A fetch that came too late, because another one took them, keeps its place.
class Waiter(Protocol):
    """A fetch that waits for records of a share partition."""

    @property
    def wanted_records(self) -> int:
        """The number of records that the fetch takes at most."""

    def on_state_changed(self) -> None:
        """Called when records may be available. The fetch calls `wait` or `remove` once it has looked."""


class WaitingFetches:
    """Waiting fetches, first come first. `available` counts the records to acquire: too many rather than too few."""

    def __init__(self, available: Callable[[], int]) -> None:
        self._available = available
        #: The number of the last state change.
        self.change = 0
        #: The last change that each fetch has seen. Those that have seen the newest stand at the end.
        self._waiters: dict[Waiter, int] = {}
        #: The fetches that are about to look, and the number of records that each wants.
        self._woken: dict[Waiter, int] = {}
        self._promised = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def wait(self, waiter: Waiter, seen: int) -> None:
        """Adds a fetch, or lets it wait on, that found too little after the change `seen`."""
        self._has_looked(waiter)
        if waiter not in self._waiters:
            self._waiters[waiter] = seen
        elif self._available() > self._promised:
            del self._waiters[waiter]
            self._waiters[waiter] = seen
        if seen != self.change:
            self.change += 1  # a change while the fetch looked: all have it to see
        self._wake()

    def remove(self, waiter: Waiter) -> None:
        """Removes a fetch: it is answered, or reads from the disk before it looks again."""
        self._has_looked(waiter)
        if self._waiters.pop(waiter, None) is not None:
            self._wake()

    def changed(self) -> None:
        """Wakes fetches for the records that are available now."""
        self.change += 1
        if not self._woken:  # else the woken ones pass it on
            self._wake()

    def wake_all(self) -> None:
        """Wakes every fetch: there is an error to return."""
        self.change += 1
        for waiter in list(self._waiters):
            waiter.on_state_changed()

    def _has_looked(self, waiter: Waiter) -> None:
        self._promised -= self._woken.pop(waiter, 0)

    def _wake(self) -> None:
        if not self._waiters:
            return
        spare = self._available() - self._promised
        if spare <= 0:
            return
        for waiter, seen in self._waiters.items():
            if spare <= 0 or seen == self.change:
                return
            if waiter not in self._woken:
                self._woken[waiter] = waiter.wanted_records
                self._promised += waiter.wanted_records
                spare -= waiter.wanted_records
                waiter.on_state_changed()
