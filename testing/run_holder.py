"""A run of brokers, and work in its loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, ClassVar, TypeVar

from .completion import Completion

if TYPE_CHECKING:
    from .broker_run import EmbeddedRun

T = TypeVar("T")


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
