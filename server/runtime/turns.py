"""Large requests take turns."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from .gc_policy import GC_PAUSES
from .memory import release_after
from .sliced_work import WAITING, run_slice
from .turn_budget import SLICE_S, TURN_BUDGET_S, TurnWatch

#: The collector pauses for this time after the last slice: work that waits for the disk continues within
#: milliseconds.
GC_REST_S = 0.2
#: Objects that are freed in one step, within 0.1 ms. A dictionary of no more is left to the interpreter.
FREED_AT_ONCE = 500
#: Bytes that one of them takes, with its entry in the dictionary.
_FREED_BYTES = 200
Work = Generator[Any, None, None]
K = TypeVar("K")
V = TypeVar("V")


class Task:
    """One piece of work. `failed` is called with its exception."""

    __slots__ = (
        "_is_resumed",
        "_is_waiting",
        "_turns",
        "api",
        "client_id",
        "failed",
        "size",
        "spent",
        "steps",
        "version",
    )

    def __init__(self, turns: Turns, steps: Work, failed: Callable[[Exception], None]) -> None:
        self._turns = turns
        self.steps = steps
        self.failed = failed
        self._is_waiting = self._is_resumed = False
        #: Called with the seconds of each slice, if a client's quota pays for them.
        self.spent: Callable[[float], None] | None = None
        # For the watch.
        self.api, self.version, self.size = "", 0, 0
        self.client_id: str | None = None

    def run(self, until_s: float) -> bool:
        """Works until `until_s`. Returns whether more work can be done without waiting."""
        try:
            while (end := run_slice(self.steps, self._turns.clock, until_s, sys.maxsize)) is WAITING:
                if not self._is_resumed:
                    self._is_waiting = True
                    return False
                self._is_resumed = False
        except Exception as failure:
            self.failed(failure)
            return False
        return end is None

    def resume(self) -> None:
        """Signals that what the work waits for, or is about to wait for, has arrived."""
        if self._is_waiting:
            self._is_waiting = False
            self._turns.add(self)
        else:
            self._is_resumed = True


class Turns:
    """A broker's pieces of work, in the order of their turns.

    A piece of work is a generator that yields often. One slice of one piece runs in a turn of the loop, and the next
    turn belongs to the next piece: a hundred large requests delay other clients no longer than one does. A piece that
    waits for a response yields WAITING, and `resume` continues it.

    The garbage collector pauses while there is work. A million live objects trigger full collections, each of which
    holds the loop far longer than a slice. A request's objects are freed when it is answered, without the collector.
    """

    def __init__(self, watch: TurnWatch) -> None:
        self.watch = watch
        self.clock = watch.clock
        self._ready: deque[Task] = deque()
        #: The end of the slice that runs now; None between slices.
        self._until_s: float | None = None
        self._is_stopped = False
        self._has_paused_gc = False
        self._collecting: asyncio.TimerHandle | None = None

    def slice_end_s(self) -> float:
        """Returns the time at which work that begins now ends its slice: with the slice that has begun it."""
        return self.clock() + SLICE_S if self._until_s is None else self._until_s

    def begin(self, steps: Work, failed: Callable[[Exception], None]) -> Task:
        """Begins the work in the next free turn."""
        task = Task(self, steps, failed)
        self.add(task)
        return task

    def free(self, kept: dict[K, V]) -> None:
        """Empties a large unused dictionary in turns: 200,000 objects take 25 ms."""
        if len(kept) > FREED_AT_ONCE:
            self.free_in_steps(_emptied(kept))

    def free_in_steps(self, steps: Work) -> None:
        """Frees large objects in turns, which nothing else uses."""
        if not self._is_stopped:
            self.begin(steps, lambda _: None)

    def add(self, task: Task) -> None:
        self._ready.append(task)
        if len(self._ready) == 1:
            if self._collecting is not None:
                self._collecting.cancel()
                self._collecting = None
            elif not self._has_paused_gc:
                self._has_paused_gc = True
                GC_PAUSES.begin()
            asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        """Stops; the remaining work is dropped."""
        self._is_stopped = True
        self._ready.clear()
        if self._collecting is not None:
            self._collecting.cancel()
        self._collect_again()

    def _collect_again(self) -> None:
        self._collecting = None
        if self._has_paused_gc:
            self._has_paused_gc = False
            GC_PAUSES.end()

    def _turn(self) -> None:
        if not self._ready:
            return
        task = self._ready[0]
        began = self.clock()
        self._until_s = began + SLICE_S
        has_more = task.run(self._until_s)
        self._until_s = None
        took = self.clock() - began
        if task.spent is not None:
            task.spent(took)
        if took > TURN_BUDGET_S:
            self.watch.exceeded(took, task.api, task.version, task.client_id, task.size)
        # Cleared only here, so that work resumed meanwhile does not start a second chain of turns.
        if not self._ready:
            return  # stopped
        self._ready.popleft()
        if has_more:
            self._ready.append(task)
        if self._ready:
            asyncio.get_running_loop().call_soon(self._turn)
        else:
            self._collecting = asyncio.get_running_loop().call_later(GC_REST_S, self._collect_again)


def _emptied(kept: dict[K, V]) -> Work:
    freed = len(kept) * _FREED_BYTES
    while kept:
        for _ in range(min(len(kept), FREED_AT_ONCE)):
            kept.popitem()
        yield
    release_after(freed)
