"""Work that would hold the loop for too long, done a slice at a time: what comes meanwhile is served in between."""

from __future__ import annotations

import asyncio
import gc
import heapq
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

#: A slice ends when it has lasted so long, or has had so many steps. What one client waits for the work of another is this.
SLICE_S = 0.01
STEPS_PER_SLICE = 500

T = TypeVar("T")
#: Work in steps, and what comes of it.
Steps = Generator[None, None, T]


def run_to_completion(steps: Steps[T]) -> T:
    """Where nobody waits, or there is no loop."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            result: T = over.value
            return result


async def in_slices(steps: Steps[T]) -> T:
    loop = asyncio.get_running_loop()
    while True:
        over = loop.time() + SLICE_S
        for _ in range(STEPS_PER_SLICE):
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if loop.time() >= over:
                break
        await asyncio.sleep(0)


def without_gc(steps: Steps[T]) -> Steps[T]:
    """Work that makes very much that stays. A full collection of garbage would look through all of it in one piece, for
    0.1 s at 100,000 partitions, several times while it grows; so there is none meanwhile, and none sees it later.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return (yield from steps)
    finally:
        if collects:
            gc.freeze()
            gc.enable()


#: What is sorted in one step: 0.1 ms.
SORTED_AT_ONCE = 512


def in_order(values: Iterable[Any]) -> Steps[list[Any]]:
    """`sorted(values)`, in steps."""
    runs: list[list[Any]] = [[]]
    for value in values:
        runs[-1].append(value)
        if len(runs[-1]) == SORTED_AT_ONCE:
            runs[-1].sort()
            runs.append([])
            yield
    runs[-1].sort()
    if len(runs) == 1:
        return runs[0]
    ordered: list[Any] = []
    for value in heapq.merge(*runs):
        ordered.append(value)
        yield
    return ordered


class SeenValues:
    """A set that may grow to a million values without ever stopping for long: to resize one such set takes 30 ms."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[set[Any]] = [set() for _ in range(_PARTS)]

    def add(self, value: Any) -> bool:
        """Whether it was not there before."""
        part = self._parts[hash(value) % _PARTS]
        size = len(part)
        part.add(value)
        return len(part) > size

    def __contains__(self, value: Any) -> bool:
        return value in self._parts[hash(value) % _PARTS]

    def clear(self) -> Steps[None]:
        while self._parts:
            self._parts.pop()
            yield


_PARTS = 61


class SlicedWork:
    """One piece of work after the other: `begin` when none is under way, and `done` is called when it is through."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._steps: Iterator[None] | None = None
        self._done: Callable[[], None] = _nothing

    @property
    def is_busy(self) -> bool:
        return self._steps is not None

    def begin(self, steps: Iterator[None], done: Callable[[], None]) -> None:
        """The first slice is done here, and `done` called before this returns if that is all. Whatever a step or `done`
        raises, now or later, goes to `failed`.
        """
        assert self._steps is None, "one after the other"
        self._steps, self._done = steps, done
        self._go_on()

    def stop(self) -> None:
        """What is left is not done."""
        self._steps = None

    def _slice(self) -> None:
        assert self._steps is not None
        loop = asyncio.get_running_loop()
        over = loop.time() + SLICE_S
        try:
            for number, _ in enumerate(self._steps, 1):
                if number >= STEPS_PER_SLICE or loop.time() >= over:
                    loop.call_soon(self._go_on)
                    return
        except Exception:
            self._steps = None
            raise
        self._steps = None
        self._done()

    def _go_on(self) -> None:
        if self._steps is None:
            return
        try:
            self._slice()
        except Exception as failure:
            self._failed(failure)


def _nothing() -> None:
    pass
