"""The turns of a node, in which each step of a large request is a turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.server.runtime.turn_budget import TurnWatch
from odradek.server.runtime.turns import Task, Turns, Work


class SteppedTurns(Turns):
    """`steps`: the number of turns. `freed`: the dictionaries that are to be emptied."""

    def __init__(self) -> None:
        super().__init__(TurnWatch(self._next_second))
        self.freed: list[dict[Any, Any]] = []
        self.steps = 0
        self._now = 0.0

    def _next_second(self) -> float:
        """Returns a time so that each step takes a whole slice."""
        self._now += 1
        return self._now

    def begin(self, steps: Work, failed: Callable[[Exception], None]) -> Task:
        loop = asyncio.get_running_loop()

        def step() -> None:
            self.steps += 1
            try:
                next(steps)
            except StopIteration:
                return
            except Exception as failure:
                failed(failure)
            else:
                loop.call_soon(step)

        loop.call_soon(step)
        return Task(self, steps, failed)

    def free(self, kept: dict[Any, Any]) -> None:
        self.freed.append(kept)
