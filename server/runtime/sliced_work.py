"""Runs long work in slices, so that the event loop serves other clients between the slices.

- `run_slice`, `in_slices`, `SlicedWork`: one piece of work, a slice at a time. `run_to_completion` and `without_gc`
  run work in one go. `in_order` and `SeenValues` do in steps what a large sort or set would do in one.
- `TurnWatch`: counts the turns of the loop that took longer than their budget.
- `Turns`: the pieces of work of one broker. Large requests take turns: together they hold the event loop for one
  slice at a time.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import struct
import sys
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...client.shown_text import shown
from ...protocol.apis import APIS
from .gc_policy import GC_PAUSES
from .memory import release_after

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison


# ---- one piece of work

#: A slice of the loop's time ends after this many steps, too: a simulated clock may stand still.
STEPS_PER_SLICE = 500

T = TypeVar("T")
#: Yielded by work that cannot continue now.
WAITING = object()
#: Work in steps, and its result.
Steps = Generator[None, None, T]


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


#: The number of values sorted in one step: 0.1 ms.
SORTED_AT_ONCE = 512

O = TypeVar("O", bound="SupportsRichComparison")


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


class SeenValues:
    """A set that may grow to a million values without a long pause: resizing a single set of that size takes 30 ms."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[set[Hashable]] = [set() for _ in range(_PARTS)]

    def add(self, value: Hashable) -> bool:
        """Adds the value. Returns whether it is new."""
        part = self._parts[hash(value) % _PARTS]
        size = len(part)
        part.add(value)
        return len(part) > size

    def __contains__(self, value: Hashable) -> bool:
        return value in self._parts[hash(value) % _PARTS]

    def clear(self) -> Steps[None]:
        while self._parts:
            self._parts.pop()
            yield


_PARTS = 61


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
        self._go_on()

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
            loop.call_soon(self._go_on)
            return
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


# ---- the budget of a turn
#
# The time budget for one turn of the event loop, and the watch for turns that exceed it.
#
# One event loop serves all clients of a broker: while a request holds the loop, all others wait. So one request holds it
# for TURN_BUDGET_S at most. Longer work runs in slices or on a thread.
#
# The watch costs a connection two clock readings per received data, and nothing else until a turn is too long.
log = logging.getLogger("odradek.turns")

#: A well-behaved client should not notice a hostile one: Kafka's clients time requests in tens of milliseconds at best.
TURN_BUDGET_S = 0.020
#: The time of a slice of long work. A quarter of the budget: the last step of a slice, and other work due in the same
#: turn, add to it.
SLICE_S = TURN_BUDGET_S / 4
#: Longer turns are logged as warnings, since a person may notice them. Shorter ones appear with `-v` and in the metric:
#: on a busy machine a turn lasts longer than its work, and the first request of an API creates its codec.
WARNED_TURN_S = 0.100
#: At most one line per level in this time; the turns between two lines are counted.
LOG_INTERVAL_S = 10.0

#: Returns the time in seconds.
Stopwatch = Callable[[], float]


class TurnWatch:
    """Counts the turns of one broker that took longer than the budget, and logs some of them.

    `clock`: the clock that times this broker's turns.
    """

    def __init__(self, clock: Stopwatch) -> None:
        self.clock = clock
        #: By log level.
        self._logged_at_s = {logging.INFO: -LOG_INTERVAL_S, logging.WARNING: -LOG_INTERVAL_S}
        self._unlogged = {logging.INFO: 0, logging.WARNING: 0}
        #: Turns over the budget, by API ("" where no request was running).
        self.counts: dict[str, int] = {}
        #: The longest turn over the budget, in seconds.
        self.longest_s = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def exceeded_by_frame(
        self, took_s: float, client_id: str | None, buffer: bytearray | memoryview, pos: int, size: int
    ) -> None:
        """Notes that the request in buffer[pos:pos + size] held the loop for longer than the budget."""
        key, version = struct.unpack_from(">hh", buffer, pos)
        api = APIS.get(key)
        self.exceeded(took_s, api.name if api is not None else str(key), version, client_id, size)

    def exceeded(self, took_s: float, api: str, version: int, client_id: str | None, size: int) -> None:
        """Notes a turn over the budget. `size`: bytes of the request."""
        self.counts[api] = self.counts.get(api, 0) + 1
        self.longest_s = max(self.longest_s, took_s)
        level = logging.WARNING if took_s >= WARNED_TURN_S else logging.INFO
        now_s = self.clock()
        if now_s - self._logged_at_s[level] < LOG_INTERVAL_S:
            self._unlogged[level] += 1
            return
        log.log(
            level,
            "%s v%s request of %s bytes from client %s blocked the event loop for %.0f ms; the budget is %.0f ms "
            "(%s more such requests since the last line)",
            *(api, version, size, shown(client_id), took_s * 1000, TURN_BUDGET_S * 1000, self._unlogged[level]),
        )
        self._logged_at_s[level], self._unlogged[level] = now_s, 0


# ---- large requests take turns

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
        self._is_stopped = False
        self._has_paused_gc = False
        self._collecting: asyncio.TimerHandle | None = None

    def begin(self, steps: Work, failed: Callable[[Exception], None]) -> Task:
        """Begins the work in the next free turn."""
        task = Task(self, steps, failed)
        self.add(task)
        return task

    def free(self, kept: dict[K, V]) -> None:
        """Empties a large unused dictionary in turns: 200,000 objects take 25 ms."""
        if len(kept) > FREED_AT_ONCE and not self._is_stopped:
            self.begin(_emptied(kept), lambda _: None)

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
        has_more = task.run(began + SLICE_S)
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
