"""Replies that wait: for data in some partitions, for an offset to be committed, or for a deadline.

A waiting reply is an object: a `Parked` is registered with each partition that it waits for, and an append touches only
the `Parked` of its partition. Deadlines are kept in buckets of a few milliseconds with one event loop timer each, so
parking sets no timer and answering cancels none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger("odradek.waiters")

#: The granularity of deadlines; they never fire early. Kafka's timing wheel ticks each millisecond; its waits are
#: hundreds of milliseconds.
BUCKET_MS = 8
#: Longer waits get a timer of their own: buckets live until they are due, and must stay few.
LONGEST_BUCKETED_WAIT_MS = 10_000


class Parked:
    """A waiting reply. `expired` is called at its deadline, unless it is removed before."""

    __slots__ = ("deadline",)

    def __init__(self) -> None:
        self.deadline: dict[Parked, None] | asyncio.TimerHandle | None = None

    def expired(self) -> None:
        raise NotImplementedError


class Deadlines:
    """The deadlines of waiting replies."""

    __slots__ = ("_buckets", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Buckets are dicts for their order: in a simulation the same seed must give the same order.
        self._buckets: dict[int, dict[Parked, None]] = {}

    def add(self, parked: Parked, wait_ms: int) -> None:
        if wait_ms > LONGEST_BUCKETED_WAIT_MS:
            parked.deadline = self._loop.call_later(wait_ms / 1000, self._fire_one, parked)
            return
        due = int(self._loop.time() * 1000 + wait_ms) // BUCKET_MS + 1
        bucket = self._buckets.get(due)
        if bucket is None:
            bucket = self._buckets[due] = {}
            self._loop.call_at(due * BUCKET_MS / 1000, self._fire, due)
        bucket[parked] = None
        parked.deadline = bucket

    def remove(self, parked: Parked) -> None:
        deadline, parked.deadline = parked.deadline, None
        if type(deadline) is dict:
            deadline.pop(parked, None)
        elif deadline is not None:
            deadline.cancel()  # type: ignore[union-attr]

    def _fire(self, due: int) -> None:
        for parked in self._buckets.pop(due):
            parked.deadline = None
            _contained(parked.expired)

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
        log.exception("a bug: a reply that waited could not be given")
