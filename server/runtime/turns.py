"""Large requests take turns: all of them together hold the loop for one slice at a time.

A piece of work is a generator that yields often. One slice of one piece runs in a turn of the loop, and the next turn
belongs to the next piece: a hundred large requests hold up everybody else no longer than one does. A piece that waits for
an answer yields WAITING, and is continued by `resume`.

The garbage collector rests while there is work. A million objects that are all in use provoke collections of
everything that there is, each of which holds the loop far longer than a slice; what a request has made is freed when it
is answered, without a collector.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from .turn_budget import TURN_BUDGET_S, TurnWatch

#: A quarter of the budget: the last step of a slice, and what else is due in the same turn, come on top.
SLICE_S = TURN_BUDGET_S / 4
#: The garbage collector rests so long after the last slice: work that waits for the disk goes on within milliseconds.
GC_REST_S = 0.2
#: Yielded by work that cannot go on before `resume`.
WAITING = object()

Work = Generator[Any, None, None]


class Task:
    """One piece of work. `failed`: called with what it raised."""

    __slots__ = ("_is_resumed", "_is_waiting", "_turns", "api", "client_id", "failed", "size", "steps", "version")

    def __init__(self, turns: Turns, steps: Work, failed: Callable[[Exception], None]) -> None:
        self._turns = turns
        self.steps = steps
        self.failed = failed
        self._is_waiting = self._is_resumed = False
        # For the watch.
        self.api, self.version, self.size = "", 0, 0
        self.client_id: str | None = None

    def run(self, until_s: float) -> bool:
        """Works until then; whether there is more to do without waiting."""
        clock = self._turns.clock
        try:
            for step in self.steps:
                if step is WAITING and not self._is_resumed:
                    self._is_waiting = True
                    return False
                if step is WAITING:
                    self._is_resumed = False
                if clock() >= until_s:
                    return True
        except Exception as failure:
            self.failed(failure)
        return False

    def resume(self) -> None:
        """What the work waits for, or is about to wait for, has come."""
        if self._is_waiting:
            self._is_waiting = False
            self._turns.add(self)
        else:
            self._is_resumed = True


class Turns:
    """The pieces of work of one broker, in the order of their turns."""

    def __init__(self, watch: TurnWatch) -> None:
        self._watch = watch
        self.clock = watch.clock
        self._ready: deque[Task] = deque()
        self._gc_was_enabled = False
        self._collecting: asyncio.TimerHandle | None = None

    def begin(self, steps: Work, failed: Callable[[Exception], None]) -> Task:
        """The work begins in the next turn that is free."""
        task = Task(self, steps, failed)
        self.add(task)
        return task

    def add(self, task: Task) -> None:
        self._ready.append(task)
        if len(self._ready) == 1:
            if self._collecting is not None:
                self._collecting.cancel()
                self._collecting = None
            elif gc.isenabled():
                self._gc_was_enabled = True
                gc.disable()
            asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        """What is left is not done."""
        self._ready.clear()
        if self._collecting is not None:
            self._collecting.cancel()
        self._collect_again()

    def _collect_again(self) -> None:
        self._collecting = None
        if self._gc_was_enabled:
            self._gc_was_enabled = False
            gc.enable()

    def _turn(self) -> None:
        if not self._ready:
            return
        task = self._ready[0]
        began = self.clock()
        has_more = task.run(began + SLICE_S)
        took = self.clock() - began
        if took > TURN_BUDGET_S:
            self._watch.exceeded(took, task.api, task.version, task.client_id, task.size)
        # Only now, so that work which is resumed meanwhile does not begin a second chain of turns.
        if not self._ready:
            return  # stopped
        self._ready.popleft()
        if has_more:
            self._ready.append(task)
        if self._ready:
            asyncio.get_running_loop().call_soon(self._turn)
        else:
            self._collecting = asyncio.get_running_loop().call_later(GC_REST_S, self._collect_again)
