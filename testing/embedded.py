"""The common part of an embedded broker and an embedded cluster: they run on a thread of their own, or in the user's loop.

In a plain program the methods block; in a program of coroutines they are awaited. The start decides.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar

from .broker_run import EmbeddedRun
from .clock import catch_up, move
from .completion import Completion
from .faults.faults import Faults
from .loop_thread import LoopThread
from .seeing.groups import GroupView
from .seeing.request_log import RequestLog
from .seeing.topics import SeenRecord, TopicView, Waited
from .snapshots import restore, save

if TYPE_CHECKING:
    from .control.port import ControlPort

T = TypeVar("T")
ConfigValue = str | int | float | bool

#: What a test wants rather than a long-running broker: rebalances begin at once, deleted files go at once.
EMBEDDED_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "log.segment.delete.delay.ms": "0",
}


class Embedded:
    """Brokers in this process. `_planned` says which."""

    #: How messages call it, and how code does.
    noun: ClassVar[str] = "broker"

    def __init__(self) -> None:
        self._run: EmbeddedRun | None = None
        #: Faults that a test scripts; `reset` ends them.
        self.faults = Faults()
        self.clock = EmbeddedClock(self)
        self._requests = RequestLog()
        #: Held by the one start or stop that is under way.
        self._changing = threading.Lock()

    def _planned(self) -> EmbeddedRun:
        """Returns a run that has not begun. Raises InvalidConfig."""
        raise NotImplementedError

    def _started(self) -> None:
        """Called when a start has ended, well or not."""

    # What it does. Each blocks, or is awaited.

    def start(self) -> Completion[Self]:
        """Starts it, on the running event loop (`await broker.start()`), or on a thread where none runs."""
        if _running_loop() is None:
            return Completion("start()", value=self._start_on_thread())
        return Completion("start()", work=self._start_here)

    def stop(self) -> Completion[None]:
        """Stops it and removes its temporary data. Does nothing when it does not run."""
        run = self._run
        if run is None or run.is_inherited:
            self._run = None
            return Completion("stop()", value=None)
        if run.thread is None:
            return self._do("stop()", self._stop_here)
        self._stop_thread()
        return Completion("stop()", value=None)

    def reset(self) -> Completion[None]:
        """Deletes every topic and every group and ends all faults, as if the broker were new, in milliseconds."""
        run = self._here()
        self.faults.clear()
        self._requests.clear()
        return self._do("reset()", run.reset)

    def save(self, path: str | Path) -> Completion[None]:
        """Saves topics, records, groups and transactions into a folder. Raises FileExistsError, OSError."""
        run = self._here()

        async def work() -> None:
            save(run, Path(path))

        return self._do("save()", work)

    def restore(self, path: str | Path) -> Completion[None]:
        """Returns to a state that was saved, by a broker of another process too. Connections break; the port stays.

        Raises ValueError for a folder that is no snapshot of as many brokers.
        """
        run = self._here()
        return self._do("restore()", lambda: restore(run, Path(path)))

    def serve_control(self, port: int = 0) -> ControlPort:
        """Serves all this over HTTP on 127.0.0.1, for programs in other languages, until `close()` of what is returned.

        Its `url` has `/openapi.json`. Raises OSError where the port is taken.
        """
        from .control.port import ControlPort

        return ControlPort(self, port)

    # What it holds.

    def topic(self, name: str) -> TopicView:
        """A topic: its records, and waiting for some."""
        return TopicView(self, name)

    def group(self, group_id: str) -> GroupView:
        """A group: its lag, its members, and waiting for them."""
        return GroupView(self, group_id)

    @property
    def requests(self) -> RequestLog:
        """The requests of clients, from the first use of this on."""
        self._requests.is_on = True
        if self._run is not None:
            self._run.observe(self._requests)
        return self._requests

    def __enter__(self) -> Self:
        return self._start_on_thread()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await self._start_here()

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    # What it is.

    @property
    def is_running(self) -> bool:
        return self._run is not None and not self._run.is_inherited

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, for any client. Raises RuntimeError when it does not run.

        A forked process may use it too: its clients reach the broker of the parent.
        """
        return self._running().bootstrap_servers

    def _here(self) -> EmbeddedRun:
        """Returns the run. Raises RuntimeError when there is none in this process."""
        run = self._running()
        if run.is_inherited:
            raise RuntimeError(f"this {self.noun} runs in process {run.pid}, from which this one was forked")
        return run

    def __repr__(self) -> str:
        return f"<odradek.{type(self).__name__} {self._run.bootstrap_servers if self._run else 'not running'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be sent to another process: send its bootstrap_servers")

    def __del__(self) -> None:
        run: EmbeddedRun | None = getattr(self, "_run", None)
        if run is not None and run.abandon():
            warnings.warn(f"{self!r} was not stopped", ResourceWarning, stacklevel=2, source=self)

    # Starting and stopping, in both worlds.

    def _start_on_thread(self) -> Self:
        with self._change("start"):
            self._check_stopped()
            run = self._planned()
            try:
                run.thread = LoopThread()
                run.thread.run(run.start())
            except BaseException:
                run.end_thread()
                raise
            finally:
                self._started()
            self._begin(run)
        return self

    async def _start_here(self) -> Self:
        with self._change("start"):
            self._check_stopped()
            run = self._planned()
            try:
                await run.start()
            finally:
                self._started()
            self._begin(run)
        return self

    def _begin(self, run: EmbeddedRun) -> None:
        self._run = run
        if self._requests.is_on:
            run.observe(self._requests)

    def _stop_thread(self) -> None:
        with self._change("stop"):
            run, self._run = self._run, None
            if run is not None:
                run.stop_thread()

    async def _stop_here(self) -> None:
        with self._change("stop"):
            run, self._run = self._run, None
            if run is not None:
                await run.stop()

    def _do(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> Completion[T]:
        """Does the work in the loop of the broker, and waits for it unless the caller is in an event loop."""
        run = self._running()
        if run.thread is not None and _running_loop() is not run.loop:
            return Completion(name, value=run.thread.run(work()))
        if _running_loop() is run.loop:
            return Completion(name, work=work)
        if not run.loop.is_running():
            raise RuntimeError(f"{name}: this {self.noun} was started in an event loop that does not run now")
        if _running_loop() is None:
            return Completion(name, value=asyncio.run_coroutine_threadsafe(work(), run.loop).result())
        return Completion(name, work=lambda: _elsewhere(work, run.loop))

    def _look(self, function: Callable[[], T]) -> T:
        """Returns what `function` sees on the loop of the broker. Blocks for that moment, in a coroutine too."""
        run = self._running()
        if _running_loop() is run.loop:
            return function()

        async def look() -> T:
            return function()

        if run.thread is not None:
            return run.thread.run(look())
        if not run.loop.is_running():
            raise RuntimeError(f"this {self.noun} was started in an event loop that does not run now")
        return asyncio.run_coroutine_threadsafe(look(), run.loop).result()

    def _wait_done(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> Completion[T]:
        """Waits on the loop of the broker: blocks, but in an event loop, whichever that is, it is awaited."""
        run = self._running()
        if _running_loop() is None or _running_loop() is run.loop:
            return self._do(name, work)
        return Completion(name, work=lambda: _elsewhere(work, run.loop))

    def _wait(self, work: Callable[[], Coroutine[Any, Any, list[SeenRecord]]]) -> Waited:
        """The same for records."""
        done = self._wait_done("wait_for()", work)
        if not done.is_done:
            return Waited(lambda: done)
        waited = Waited()
        waited.extend(done.result)
        return waited

    def _running(self) -> EmbeddedRun:
        if self._run is None:
            raise RuntimeError(
                f"this {self.noun} is not running: enter it with `with` or `async with`, or call start(), "
                "which inside an event loop is awaited"
            )
        return self._run

    def _check_stopped(self) -> None:
        if self.is_running:
            raise RuntimeError(
                f"this {self.noun} is running already: stop it first, or make another {type(self).__name__}"
            )

    def _change(self, name: str) -> _Change:
        return _Change(self._changing, f"{name} this {self.noun}")


class EmbeddedClock:
    """`broker.clock`: the time of the broker, or of all brokers of a cluster."""

    def __init__(self, embedded: Embedded) -> None:
        self._embedded = embedded

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> Completion[None]:
        """Moves the time on and does what has become due: retention, session time-outs, transactional expiry, locks.

        Blocks or is awaited. Raises ValueError for a time that is not ahead.
        """
        ahead_s = _seconds(days, hours, minutes, seconds, milliseconds)
        if ahead_s <= 0:
            raise ValueError(f"a clock advances by more than nothing, not by {ahead_s:g} s: jump() steps back")
        run = self._embedded._here()

        async def advance() -> None:
            move(run.clock, run.servers.values(), ahead_s)
            await catch_up(run.servers.values())

        return self._embedded._do("clock.advance()", advance)

    def jump(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> Completion[None]:
        """Sets the clock forward or back, as somebody who corrects it does. Periodic tasks keep their times."""
        run = self._embedded._here()

        async def jump() -> None:
            move(run.clock, run.servers.values(), _seconds(days, hours, minutes, seconds, milliseconds))

        return self._embedded._do("clock.jump()", jump)

    @property
    def offset_seconds(self) -> float:
        """How far it is ahead of real time."""
        return self._embedded._here().clock.offset_s

    @property
    def now_ms(self) -> int:
        """The broker's time, in ms since 1970."""
        return self._embedded._here().clock.now_ms()


def _seconds(days: float, hours: float, minutes: float, seconds: float, milliseconds: float) -> float:
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds + milliseconds / 1000


class _Change:
    """The one start or stop of a broker that is under way. Raises RuntimeError where another is."""

    def __init__(self, lock: threading.Lock, name: str) -> None:
        self._lock = lock
        self._name = name

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(f"cannot {self._name}: it is being started or stopped")

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


async def _elsewhere(work: Callable[[], Coroutine[Any, Any, T]], loop: asyncio.AbstractEventLoop) -> T:
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def as_text(value: ConfigValue) -> str:
    """Returns a value of a property as a properties file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
