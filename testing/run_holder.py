"""A run of brokers, its clock, and work in its loop: a plain program blocks for it, coroutines await its `Completion`."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from .clock import catch_up, move

if TYPE_CHECKING:
    from .broker_run import EmbeddedRun

T = TypeVar("T")
_PENDING = object()


class Completion(Coroutine[object, None, T], Generic[T]):
    """The outcome of one call of `name`.

    Called synchronously, the work is done when the caller gets this: `result` is the value, and awaiting it gives the same
    at once. Called in the event loop that does the work, nothing has begun: awaiting it does the work, once. A
    `Completion` that is never awaited warns, like a coroutine.
    """

    __slots__ = ("_iterator", "_name", "_value", "_work")

    def __init__(
        self, name: str, *, value: T | object = _PENDING, work: Callable[[], Coroutine[object, None, T]] | None = None
    ):
        self._name = name
        self._value = value
        self._work = work
        self._iterator: Generator[object, None, T] | None = None

    @property
    def is_done(self) -> bool:
        return self._value is not _PENDING

    @property
    def result(self) -> T:
        """The value. Raises RuntimeError before the work is done."""
        if self._value is _PENDING:
            raise RuntimeError(
                f"{self._name} has no result yet: inside an event loop write `await broker.{self._name}`"
            )
        return cast("T", self._value)

    def __await__(self) -> Generator[object, None, T]:
        if self._value is _PENDING:
            work, self._work = self._work, None
            if work is None:
                raise RuntimeError(f"{self._name} was awaited already")
            self._value = yield from work().__await__()
        return self.result

    # asyncio takes an object with these for a coroutine: create_task() and asyncio.run() accept it.

    def send(self, value: None) -> object:
        if self._iterator is None:
            self._iterator = self.__await__()
        return self._iterator.send(value)

    def throw(self, *exception: Any) -> object:
        if self._iterator is None:
            self._iterator = self.__await__()
            self._work = None  # cancelled before its first step: it was not forgotten
        return self._iterator.throw(*exception)

    def close(self) -> None:
        self._work = None
        if self._iterator is not None:
            self._iterator.close()

    def __del__(self) -> None:
        if self._work is not None:
            message = f"odradek.Broker.{self._name} was never awaited, so it did nothing"
            warnings.warn(f"{message}: write `await broker.{self._name}`", RuntimeWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<{self._name}: {'done' if self.is_done else 'to be awaited'}>"


class RunHolder:
    """The run of an embedded broker or cluster, while there is one."""

    #: How messages call it, and how code does.
    noun: ClassVar[str] = "broker"

    def __init__(self) -> None:
        self._run: EmbeddedRun | None = None

    def _running(self) -> EmbeddedRun:
        if self._run is None:
            raise RuntimeError(
                f"this {self.noun} is not running: enter it with `with` or `async with`, or call start(); "
                "inside an event loop, await start()"
            )
        return self._run

    def _here(self) -> EmbeddedRun:
        """Returns the run. Raises RuntimeError when there is none in this process."""
        run = self._running()
        if run.is_inherited:
            raise RuntimeError(f"this {self.noun} runs in process {run.pid}, the parent of this forked process")
        return run

    def _do(self, name: str, work: Callable[[], Coroutine[object, None, T]]) -> Completion[T]:
        """Does the work in the loop of the broker, and waits for it unless the caller is in an event loop."""
        run = self._running()
        if run.thread is not None and running_loop() is not run.loop:
            return Completion(name, value=run.thread.run(work()))
        if running_loop() is run.loop:
            return Completion(name, work=work)
        if not run.loop.is_running():
            raise RuntimeError(f"{name}: this {self.noun} was started in an event loop that is not running")
        if running_loop() is None:
            return Completion(name, value=asyncio.run_coroutine_threadsafe(work(), run.loop).result())
        return Completion(name, work=lambda: _elsewhere(work, run.loop))

    def _look(self, function: Callable[[], T]) -> T:
        """Returns what `function` sees on the loop of the broker. Blocks for that moment, in a coroutine too."""
        run = self._running()
        if running_loop() is run.loop:
            return function()

        async def look() -> T:
            return function()

        if run.thread is not None:
            return run.thread.run(look())
        if not run.loop.is_running():
            raise RuntimeError(f"this {self.noun} was started in an event loop that is not running")
        return asyncio.run_coroutine_threadsafe(look(), run.loop).result()

    def _wait_done(self, name: str, work: Callable[[], Coroutine[object, None, T]]) -> Completion[T]:
        """Waits on the loop of the broker: blocks, but in an event loop, whichever that is, it is awaited."""
        run = self._running()
        if running_loop() is None or running_loop() is run.loop:
            return self._do(name, work)
        return Completion(name, work=lambda: _elsewhere(work, run.loop))


async def _elsewhere(work: Callable[[], Coroutine[object, None, T]], loop: asyncio.AbstractEventLoop) -> T:
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


# ---- the clock

# ---- the clock of a test


class EmbeddedClock:
    """`broker.clock`: the time of the broker, or of all brokers of a cluster."""

    def __init__(self, embedded: RunHolder) -> None:
        self._embedded = embedded

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> Completion[None]:
        """Advances the clock and runs due timers: retention, session timeouts, transactional expiry, locks.

        Blocks or is awaited. Raises ValueError for a time of 0 or less.
        """
        ahead_s = _seconds(days, hours, minutes, seconds, milliseconds)
        if ahead_s <= 0:
            raise ValueError(f"advance() needs more than 0 s, not {ahead_s:g} s: use jump() to set the clock back")
        run = self._embedded._here()

        async def advance() -> None:
            move(run.clock, run.servers.values(), ahead_s)
            await catch_up(run.servers.values())

        return self._embedded._do("clock.advance()", advance)

    def jump(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> Completion[None]:
        """Sets the clock forward or back, as an administrator does. The periodic tasks of logs keep their times."""
        run = self._embedded._here()

        async def jump() -> None:
            move(run.clock, run.servers.values(), _seconds(days, hours, minutes, seconds, milliseconds))

        return self._embedded._do("clock.jump()", jump)

    @property
    def offset_seconds(self) -> float:
        """How far the clock is ahead of real time, in seconds."""
        return self._embedded._here().clock.offset_s

    @property
    def now_ms(self) -> int:
        """The broker's time, in ms since 1970."""
        return self._embedded._here().clock.now_ms()


def _seconds(days: float, hours: float, minutes: float, seconds: float, milliseconds: float) -> float:
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds + milliseconds / 1000
