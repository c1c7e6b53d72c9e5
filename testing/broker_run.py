"""One run of an embedded broker, from its start to its stop: the server, where it runs, and its temporary data.

It does not refer to the `Broker` that made it, so a forgotten `Broker` is collected and stops its run.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import shutil
import tempfile
import threading
from pathlib import Path

from ..server.broker import BrokerServer
from ..server.config.broker_config import BrokerConfig
from .faults.faults import Faults
from .faults.intercepting import Interceptor
from .loop_thread import LoopThread

log = logging.getLogger("odradek.embedded")

#: The time that a broker gets to stop when the interpreter exits; a program that was told to end must end.
EXIT_DEADLINE_S = 10

#: Runs that have begun and not ended. Interpreter exit ends them.
_unfinished: set[EmbeddedRun] = set()


class EmbeddedRun:
    """`thread` is None when the broker shares the loop in which `start` was awaited."""

    def __init__(self, config: BrokerConfig, temporary: Path | None, faults: Faults) -> None:
        self.server = BrokerServer(config)
        self.interceptor = Interceptor(self.server, faults)
        self.temporary = temporary
        self.thread: LoopThread | None = None
        self.bootstrap_servers = ""
        self.pid = os.getpid()
        self.loop: asyncio.AbstractEventLoop
        self._is_abandoned = False
        #: The loop refers to its tasks weakly.
        self._stopping: asyncio.Task[None] | None = None

    @staticmethod
    def temporary_path() -> Path:
        """A folder's path that nobody else uses. `start` makes the folder."""
        return Path(tempfile.gettempdir()) / f"odradek-{os.getpid()}-{os.urandom(6).hex()}"

    @property
    def is_inherited(self) -> bool:
        """Returns whether this process was forked from the one in which the broker runs."""
        return self.pid != os.getpid()

    async def start(self) -> None:
        """Raises what `BrokerServer.start` raises; nothing is left then."""
        self.loop = asyncio.get_running_loop()
        _unfinished.add(self)
        try:
            if self.temporary is not None:
                self.temporary.mkdir(mode=0o700)
            await self.server.start()
        except BaseException:
            self.forget()
            raise
        self.bootstrap_servers = ",".join(self.server.addresses)

    async def stop(self) -> None:
        try:
            await self.server.stop()
        finally:
            self.forget()

    def stop_thread(self) -> None:
        """`stop`, and the end of the thread, waited for."""
        assert self.thread is not None
        try:
            self.thread.run(self.stop())
        finally:
            self.end_thread()

    def end_thread(self) -> None:
        if self.thread is not None:
            self.thread.end()
        self.forget()

    def abandon(self) -> bool:
        """Stops it without waiting: the garbage collector may call this on any thread. False when it has ended."""
        if self not in _unfinished or self.is_inherited:
            return False
        self._is_abandoned = True
        try:
            self.loop.call_soon_threadsafe(self._begin_stop)
        except RuntimeError:  # the loop is closed: only the data is left
            self.forget()
        return True

    def _begin_stop(self) -> None:
        self._stopping = self.loop.create_task(self.stop())
        self._stopping.add_done_callback(self._end_abandoned_thread)

    def _end_abandoned_thread(self, stopping: asyncio.Task[None]) -> None:
        if self.thread is not None:
            self.thread.begin_end()

    def stop_at_exit(self) -> None:
        assert self.thread is not None
        try:
            if self._is_abandoned:
                self.thread.join(EXIT_DEADLINE_S)
            else:
                self.thread.run(self.stop(), EXIT_DEADLINE_S)
                self.thread.end(EXIT_DEADLINE_S)
        except (OSError, RuntimeError) as error:  # a TimeoutError too
            log.warning("a broker could not be stopped when the program ended: %s", error)

    def forget(self) -> None:
        """Removes what is left of it in this process and on the disk."""
        _unfinished.discard(self)
        if self.temporary is not None and not self.is_inherited:
            shutil.rmtree(self.temporary, ignore_errors=True)


def _stop_threads() -> None:
    for run in list(_unfinished):
        if run.thread is not None and not run.is_inherited:
            run.stop_at_exit()


def _remove_data() -> None:
    """A broker that shared a loop cannot be stopped any more, as the loop has ended."""
    for run in list(_unfinished):
        run.forget()


# A stop flushes on threads of an executor, which takes no work any more when atexit's functions are called; functions
# registered here are called earlier, the last registered first. concurrent.futures does the same.
getattr(threading, "_register_atexit", atexit.register)(_stop_threads)
atexit.register(_remove_data)
