"""Requests that wait: for appends to partitions, for an offset to be committed, or for a deadline.

- `Parked`: a reply that waits. It is registered with each partition that it waits for, so an append touches only the
  `Parked` of its partition.
- `Deadlines`: the deadlines of all `Parked`.
- `Wakeups`: the `Parked` that became ready in one turn of the event loop, completed together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..runtime.clock import TIMER_RESOLUTION_S

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
        assert parked.deadline is None, f"{parked!r} waits already"
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
