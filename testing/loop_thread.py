"""An event loop on a thread of its own, for programs without one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")

#: How often a waiting caller looks whether the thread still lives.
THREAD_CHECK_S = 1.0


class LoopThread:
    """A daemon thread that runs a loop until `end`. `run` may be called from any other thread."""

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="odradek", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[object, None, T], timeout_s: float | None = None) -> T:
        """Has the loop run a coroutine and returns its result, or raises its exception.

        KeyboardInterrupt, or TimeoutError after `timeout_s`, cancels the coroutine.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return self._await(future, timeout_s)
        except BaseException:
            future.cancel()
            raise

    def end(self, timeout_s: float | None = None) -> None:
        """Cancels what still runs in the loop, ends the thread and closes the loop. TimeoutError leaves them behind."""
        self.begin_end()
        self.join(timeout_s)

    def join(self, timeout_s: float | None = None) -> None:
        """Waits for the end that was begun. Raises TimeoutError."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimeoutError(f"the broker's thread did not end in {timeout_s} s")

    def begin_end(self) -> None:
        """`end` without waiting, for callers that may be the loop's own thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self.loop)
        # The loop's own default executor needs one more thread for its end, which CPython 3.12 refuses at interpreter exit.
        executor = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="odradek-default")
        self.loop.set_default_executor(executor)
        try:
            self.loop.run_forever()
        finally:
            try:
                self._cancel_all()
                self.loop.run_until_complete(self.loop.shutdown_asyncgens())
                executor.shutdown()
            finally:
                asyncio.set_event_loop(None)
                self.loop.close()

    def _cancel_all(self) -> None:
        """Cancelled tasks clean up before the loop closes: an interrupted start stops what it had begun.

        A task that is cancelled already cleans up by now; a second cancellation would end that half-way.
        """
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            if not task.cancelling():
                task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    def _await(self, future: concurrent.futures.Future[T], timeout_s: float | None) -> T:
        waited_s = 0.0
        while True:
            step_s = THREAD_CHECK_S if timeout_s is None else min(THREAD_CHECK_S, timeout_s - waited_s)
            try:
                return future.result(step_s)
            except TimeoutError:
                if future.done():
                    raise  # the coroutine's own
            if not self._thread.is_alive():
                raise RuntimeError("the broker's thread has ended")
            waited_s += step_s
            if timeout_s is not None and waited_s >= timeout_s:
                raise TimeoutError(f"the broker did not respond in {timeout_s} s")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
