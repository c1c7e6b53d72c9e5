"""Random walks of a query whose drivers die, pause and come back: each batch that Spark has planned is in the topic once.

Spark plans a batch once, and goes on to the next one when the commit of the sink has returned. A new driver has a new run,
and runs the last planned batch again. A paused driver goes on in the middle of its commit, after others have taken over.
Spark gives up a batch whose commit has failed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from itertools import count

import pytest
from odradek.admin.errors import NoResponse, RequestFailed
from odradek.sink.decision import WrittenBatch, is_to_write
from odradek.sink.open_transactions import NotCommitted

from compat_tests.sink.harness import STEPS, TASKS, Died, Query, rows

pytestmark = pytest.mark.timeout(240)
TURNS = 12


class Walk:
    """`planned`: the batch that Spark runs, or runs again."""

    def __init__(self, query: Query, seed: int) -> None:
        self.query = query
        self.rng = random.Random(seed)
        self.planned = 0
        self.story: list[str] = []
        self._runs = (f"run-{number}" for number in count())
        self._run = next(self._runs)
        self._depth = 0

    def turn(self) -> None:
        """Runs the planned batch once: to its end, to a death or an error, or with a pause in which others run."""
        run, number = self._run, self.planned
        kind = self.rng.choice(("whole", "dies", "dies", "fails", "pauses"))
        step, times = self.rng.choice(STEPS), self.rng.randint(1, 3)
        self.story.append(f"{'  ' * self._depth}{run} batch {number} {kind} before {step} ({times})")
        try:
            self._run_batch(run, number, self._hook(kind, step, times))
        except Died:
            self._restart(run)
        except (NotCommitted, RequestFailed) as error:
            self.story.append(f"{'  ' * self._depth}{run} fails: {error}")
            self._restart(run)

    def finish(self) -> None:
        """Runs the planned batch with a driver that nothing disturbs."""
        self._run = next(self._runs)
        self._run_batch(self._run, self.planned, lambda step: None)

    def _run_batch(self, run: str, number: int, before: Callable[[str], None]) -> None:
        done = self.query.decisions().finish()
        if is_to_write(self.query.name, done, "query", run, number):
            batch = self._written(run, number)
            try:
                self.query.decisions(before).commit(batch)
            except (NotCommitted, RequestFailed):
                self.query.decisions(before).give_up(batch)
                raise
        else:
            self.query.decisions().clear(run)
        if run == self._run and number == self.planned:
            self.planned += 1

    def _written(self, run: str, number: int) -> WrittenBatch:
        """The batch, and now and then attempts that do not count."""
        if self.rng.random() < 0.3:
            self.query.task(self.rng.randrange(TASKS), run, number, attempt=1)
        return self.query.batch(run, number)

    def _restart(self, run: str) -> None:
        if run == self._run:
            self._run = next(self._runs)

    def _hook(self, kind: str, step: str, times: int) -> Callable[[str], None]:
        left = [times if step == "end one" else 1]
        has_happened: list[str] = []
        lock = threading.Lock()

        def before(name: str) -> None:
            with lock:
                if name == step:
                    left[0] -= 1
                is_there = left[0] <= 0
                if kind == "dies" and is_there:
                    raise Died(name)
                if not is_there or has_happened:
                    return
                has_happened.append(name)
                if kind == "fails":
                    raise NoResponse(f"no response before {name}")
                if kind == "pauses" and self._depth == 0:
                    self._pause()

        return before

    def _pause(self) -> None:
        """Spark has started the query again meanwhile."""
        self._depth += 1
        self._run = next(self._runs)
        for _ in range(self.rng.randint(1, 3)):
            self.turn()
        self._depth -= 1


@pytest.mark.parametrize("seed", range(6))
def test_planned_batches_are_there_once_after_a_walk(query: Query, seed: int) -> None:
    walk = Walk(query, seed)
    for _ in range(TURNS):
        walk.turn()
    walk.finish()
    story = "\n".join(walk.story)
    assert query.committed() == rows(*range(walk.planned)), story
    assert query.decisions().read().is_ended, story
