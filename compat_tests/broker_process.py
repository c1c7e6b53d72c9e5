"""A broker in its own process, of either kind: started, killed, restarted, stopped."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO

from odradek.protocol.messages.metadata import MetadataRequest

from .access import connect

_STOP_DEADLINE_S = 60
POLL_S = 0.02


class BrokerFailed(RuntimeError):
    """The broker did not start, or ended by itself; the text has the end of its log."""


#: Below Linux's default `ip_local_port_range`, which begins at 32768. 9092 and other well-known ports are not in it.
_PORTS = (20_000, 32_000)
#: Each test process locks a byte of this file for each of its ports during its life, so no two processes share a port.
_LOCKS = Path(tempfile.gettempdir(), f"odradek-ports-{os.getuid()}")
_given: set[int] = set()
_locks: list[IO[bytes]] = []


def free_port() -> int:
    """Returns a port without a listener, below those that the system gives to clients, so no connection of another process
    takes it before the broker binds it. Each call returns another port, so nodes that have not started yet, or were
    killed, keep theirs.
    """
    return free_ports(1)


def free_ports(count: int) -> int:
    """Returns the first of `count` consecutive free ports."""
    while True:
        first = random.SystemRandom().randrange(_PORTS[0], _PORTS[1] - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first


def _is_free(port: int) -> bool:
    if port in _given:
        return False
    if not _locks:
        _locks.append(_LOCKS.open("ab"))
    with socket.socket() as probe, contextlib.suppress(OSError):
        fcntl.lockf(_locks[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        _given.add(port)
        probe.bind(("127.0.0.1", port))
        return True
    return False


def start_all(nodes: Iterable[BrokerProcess]) -> None:
    """Starts the nodes that are not running. A quorum needs a majority to serve, so it waits after all have begun."""
    ended = [node for node in nodes if not node.is_running]
    for node in ended:
        node.begin()
    for node in ended:
        node.await_serving()


class BrokerProcess:
    """A broker of either kind. A subclass returns its start command from `command`, and waits in `_wait` until it serves."""

    name = "broker"

    def __init__(
        self, directory: Path, properties: dict[str, str] | None = None, *, start_deadline_s: float = 60
    ) -> None:
        self.directory = directory
        self.properties = dict(properties or {})
        self.host = "127.0.0.1"
        self.port = 0
        self.start_deadline_s = start_deadline_s
        self.stop_deadline_s = _STOP_DEADLINE_S
        self.starts = 0
        self.process: subprocess.Popen[str] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    @property
    def log_file(self) -> Path:
        """Returns the file with standard error of all starts."""
        return self.directory / "broker.log"

    @property
    def output_file(self) -> Path:
        """Returns the file with standard output of the last start."""
        return self.directory / "broker.out"

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} is not running"
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str] | None:
        return None

    def start(self) -> BrokerProcess:
        """Starts the broker, on the port and the data of the last start if there was one, and waits until it serves."""
        self.begin()
        self.await_serving()
        return self

    def begin(self) -> None:
        """Starts the broker without waiting: nodes of a quorum must all begin before any of them serves."""
        assert not self.is_running
        command = self.command()
        self.starts += 1
        with self.log_file.open("a") as log, self.output_file.open("w") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=log, stdin=subprocess.DEVNULL, text=True, env=self.environment()
            )

    def await_serving(self) -> None:
        try:
            self._wait(time.monotonic() + self.start_deadline_s)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> int:
        """Sends SIGTERM and returns the exit status. Kills the process when it does not end in time."""
        assert self.process is not None
        self.process.terminate()
        try:
            status = self.process.wait(self.stop_deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"{self.name} did not stop on SIGTERM:\n{self.last_words()}") from None
        self.process = None
        return status

    def restart(self) -> None:
        self.stop()
        self.start()

    def last_words(self, lines: int = 40) -> str:
        logged = self.log_file.read_text(errors="replace").splitlines() if self.log_file.exists() else []
        printed = self.output_file.read_text(errors="replace").splitlines() if self.output_file.exists() else []
        return "\n".join([*logged[-lines:], *printed[-lines:]])

    def _wait(self, deadline: float) -> None:
        """Waits until a Metadata response lists a broker: then it is registered, unfenced and serving."""
        while not self._serves():
            self._check_alive(deadline)
            time.sleep(POLL_S)

    def _check_alive(self, deadline: float) -> None:
        assert self.process is not None
        if self.process.poll() is not None:
            raise BrokerFailed(f"{self.name} ended with {self.process.returncode}:\n{self.last_words()}")
        if time.monotonic() > deadline:
            raise BrokerFailed(f"{self.name} did not serve in {self.start_deadline_s} s:\n{self.last_words()}")

    def _serves(self) -> bool:
        with contextlib.suppress(OSError), connect(self.bootstrap, timeout=5) as client:
            return bool(client.call(MetadataRequest(topics=[]), 1).brokers)
        return False

    def __enter__(self) -> BrokerProcess:
        return self if self.is_running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_running:
            self.stop()
        else:
            self.kill()
