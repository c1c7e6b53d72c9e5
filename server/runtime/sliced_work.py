"""Runs long work in slices, so that the event loop serves other clients between the slices.

- `run_slice`, `in_slices`, `SlicedWork`: one piece of work, a slice at a time. `run_to_completion` and `without_gc`
  run work in one go. `in_order` does in steps what a large sort would do in one.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .gc_policy import GC_PAUSES
from .turn_budget import SLICE_S

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

#: A slice of the loop's time ends after this many steps, too: a simulated clock may stand still.
STEPS_PER_SLICE = 500
T = TypeVar("T")
#: Yielded by work that cannot continue now.
WAITING = object()
#: Work in steps, and its result.
Steps = Generator[None, None, T]
#: The number of values sorted in one step: 0.1 ms.
SORTED_AT_ONCE = 512
O = TypeVar("O", bound="SupportsRichComparison")


def run_to_completion(steps: Steps[T]) -> T:
    """Runs all steps in one go, where no client waits or no event loop runs."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            result: T = over.value
            return result


class Done(Generic[T]):
    """The end of work in steps."""

    __slots__ = ("result",)

    def __init__(self, result: T) -> None:
        self.result = result


def run_slice(
    steps: Iterator[object], clock: Callable[[], float], until_s: float | None = None, most_steps: int | None = None
) -> Done[Any] | object | None:
    """Runs steps for SLICE_S, or until `until_s`. Returns None when more can be done, WAITING when the work yields that,
    and Done with the result at the end.
    """
    if until_s is None:
        until_s = clock() + SLICE_S
    for _ in range(STEPS_PER_SLICE if most_steps is None else most_steps):
        try:
            step: object = next(steps)
        except StopIteration as end:
            return Done(end.value)
        if step is WAITING:
            return WAITING
        if clock() >= until_s:
            break
    return None


async def in_slices(steps: Steps[T]) -> T:
    loop = asyncio.get_running_loop()
    while True:
        end = run_slice(steps, loop.time)
        if isinstance(end, Done):
            result: T = end.result
            return result
        await asyncio.sleep(0)


def without_gc(steps: Steps[T]) -> Steps[T]:
    """Runs work that creates many long-lived objects without garbage collection. A full collection would scan all of
    them in one go, taking 0.1 s at 100,000 partitions, several times as they grow. So none runs meanwhile, and later
    collections skip these objects.
    """
    with GC_PAUSES.pause(freeze=True):
        return (yield from steps)


def in_order(values: Iterable[O]) -> Steps[list[O]]:
    """Computes `sorted(values)` in steps."""
    runs: list[list[O]] = [[]]
    for value in values:
        runs[-1].append(value)
        if len(runs[-1]) == SORTED_AT_ONCE:
            runs[-1].sort()
            runs.append([])
            yield
    runs[-1].sort()
    if len(runs) == 1:
        return runs[0]
    ordered: list[O] = []
    for value in heapq.merge(*runs):
        ordered.append(value)
        yield
    return ordered


class SlicedWork:
    """Runs one piece of work at a time: call `begin` when none is running; `done` is called when it is complete."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._steps: Iterator[None] | None = None
        self._done: Callable[[], None] = _nothing

    @property
    def is_busy(self) -> bool:
        return self._steps is not None

    def begin(self, steps: Iterator[None], done: Callable[[], None]) -> None:
        """Begins the work. The first slice runs here, and `done` is called before this returns if that completes the
        work. Exceptions of a step or of `done`, now or later, go to `failed`.
        """
        assert self._steps is None, "one after the other"
        self._steps, self._done = steps, done
        self._advance()

    def stop(self) -> None:
        """Stops; the remaining work is dropped."""
        self._steps = None

    def _slice(self) -> None:
        assert self._steps is not None
        loop = asyncio.get_running_loop()
        try:
            end = run_slice(self._steps, loop.time)
        except Exception:
            self._steps = None
            raise
        if end is None:
            loop.call_soon(self._advance)
            return
        self._steps = None
        self._done()

    def _advance(self) -> None:
        if self._steps is None:
            return
        try:
            self._slice()
        except Exception as failure:
            self._failed(failure)


def _nothing() -> None:
    pass
