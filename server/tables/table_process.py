"""The process that keeps tables: `odradek.archive.table_process`, in an interpreter of its own, at most one at a time.

Its standard input has a line with the settings, then one with the topics and their configs at each change. The end of its
input ends it, so it does not survive this broker. Its lines on standard error go to the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import subprocess
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..runtime.interpreter import INTERPRETER, interpreter_environment

if TYPE_CHECKING:
    from ..config.table_settings import TableSettings
    from ..runtime.thread_pools import ThreadPool

log = logging.getLogger("odradek.tables")

_MODULE = f"{__package__.removesuffix('.server.tables')}.archive.table_process"
#: A process that ends by itself is started again after a pause that doubles, up to a limit.
_FIRST_PAUSE_S, _MOST_PAUSE_S = 0.5, 60.0
#: A process that ran for so long is not one that keeps ending.
_STEADY_S = 120.0
#: A process without topics ends its commit for so long; one that is killed leaves whole tables, too.
_END_S = 10.0
#: The same while this broker stops.
_STOP_S = 5.0
_CHUNK_BYTES = 64 << 10
#: The bytes of a line that are logged.
_MOST_LINE_BYTES = 4096


class FollowedTopic(NamedTuple):
    """`id`: another one when the topic was created again. `configs`: those of its table."""

    id: str
    configs: dict[str, str]


class TableProcess:
    """`address`: returns host:port of the listener where it logs in. Used on the loop."""

    def __init__(self, settings: TableSettings, address: Callable[[], str], disk: ThreadPool) -> None:
        self._settings = settings
        self._address = address
        self._disk = disk
        self._topics: dict[str, FollowedTopic] = {}
        self._supervising: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        #: None while there is no process, and when it has been told to end.
        self._input: asyncio.WriteTransport | None = None
        #: Whether the process has been told to end.
        self._is_ending = False
        self._is_stopped = False

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return None if self._process is None else self._process.pid

    def assign(self, topics: Mapping[str, FollowedTopic]) -> None:
        """Has the process keep the tables of these topics, by name, and of no others."""
        if self._is_stopped:
            return
        self._topics = dict(topics)
        if self._supervising is None or self._supervising.done():
            if topics:
                self._supervising = asyncio.get_running_loop().create_task(self._supervise(), name="table process")
        elif self._input is not None:
            if topics:
                self._send_topics()
            else:
                self._end(_END_S)

    async def stop(self) -> None:
        """Ends the process after its commit, or kills it."""
        self._is_stopped, self._topics = True, {}
        if self._supervising is None or self._supervising.done():
            return
        if self._process is None:
            self._supervising.cancel()
        elif self._input is not None:
            self._end(_STOP_S)
        with contextlib.suppress(asyncio.CancelledError):
            await self._supervising

    async def _supervise(self) -> None:
        loop, pause_s = asyncio.get_running_loop(), _FIRST_PAUSE_S / 2
        while self._topics:
            began_s = loop.time()
            try:
                status = await self._run()
            except OSError as error:
                reason = f"cannot run: {error.strerror or error}"
            else:
                reason = f"has ended with {status}"
                if self._is_ending:  # it has topics again
                    continue
            if not self._topics:
                return
            pause_s = _FIRST_PAUSE_S if loop.time() - began_s > _STEADY_S else min(_MOST_PAUSE_S, 2 * pause_s)
            log.warning("the process that keeps tables %s; it is started again in %g s", reason, pause_s)
            await asyncio.sleep(pause_s)

    async def _run(self) -> int:
        """Runs a process from its start to its end. Returns its exit status."""
        process = await self._started()
        self._process, self._is_ending = process, False
        loop = asyncio.get_running_loop()
        try:
            self._input, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
            log.info("process %d keeps tables that follow topics: %d", process.pid, len(self._topics))
            self._send(self._first_line())
            self._send_topics()
            if not self._topics:  # taken away while it started
                self._end(_STOP_S if self._is_stopped else _END_S)
            await self._log_lines(process)
        except BaseException:
            process.kill()
            raise
        finally:
            self._process = None
            if self._input is not None:
                self._input.abort()
                self._input = None
            status = await self._disk.run(process.wait)
        return status

    async def _started(self) -> subprocess.Popen[bytes]:
        starting = self._disk.start(_start_process)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_kill_started)
            raise

    def _first_line(self) -> dict[str, object]:
        settings = self._settings
        return {
            "bootstrap": self._address(),
            "warehouse": _text(settings.warehouse),
            "catalog": _text(settings.catalog),
            "client": _text(settings.client),
            "namespace": settings.namespace,
            "freshness_s": settings.freshness_s,
        }

    def _send_topics(self) -> None:
        self._send({"topics": {name: one._asdict() for name, one in self._topics.items()}})

    def _send(self, message: Mapping[str, object]) -> None:
        assert self._input is not None
        self._input.write(json.dumps(message).encode() + b"\n")

    def _end(self, within_s: float) -> None:
        """Ends the input of the process, and the process itself if it does not end in time."""
        assert self._input is not None and self._process is not None
        self._input.close()
        self._input, self._is_ending = None, True
        asyncio.get_running_loop().call_later(within_s, _kill, self._process)

    async def _log_lines(self, process: subprocess.Popen[bytes]) -> None:
        """Logs what the process writes, until its end."""
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), process.stderr
        )
        try:
            rest = b""
            while data := await reader.read(_CHUNK_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    _log_line(line)
                rest = rest[:_MOST_LINE_BYTES]
            _log_line(rest)
        finally:
            transport.close()


def _start_process() -> subprocess.Popen[bytes]:
    """Starts the process, on a thread: see server/replicas/compaction_process.py. Ctrl-C of a terminal does not reach it."""
    return subprocess.Popen(
        [*INTERPRETER, "-m", _MODULE],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=interpreter_environment(),
        start_new_session=True,
    )


def _kill_started(starting: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        _kill(starting.result())


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process that has not ended."""
    if process.returncode is None:
        process.kill()


def _log_line(line: bytes) -> None:
    text = line[:_MOST_LINE_BYTES].decode("utf-8", errors="replace").strip()
    if text:
        log.warning("tables: %s", text.removeprefix("odradek: "))


def _text(path: object) -> str | None:
    return None if path is None else str(path)
