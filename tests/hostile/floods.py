"""Connections that an attacker holds, and brokers with a limit of descriptors."""

from __future__ import annotations

import contextlib
import re
import resource
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from odradek.protocol.messages.api_versions import ApiVersionsRequest

from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import request_frame
from tests.hostile.attack_target import AttackTarget

#: The beginning of a request that never ends: its length announces 100 MB, and the header's first bytes follow.
HALF_FRAME = struct.pack(">ihh", 100_000_000, 0, 9) + b"x" * 100
#: A whole request, so that the connection counts as used.
REQUEST = request_frame(ApiVersionsRequest(), 0, 1, "flood")
#: The time for a broker to close rejected connections and to write its log lines.
DEADLINE_S = 60


def limited_node(directory: Path, soft: int, hard: int | None = None, **properties: str) -> OdradekProcess:
    """Returns a single broker with these limits of open files, without a good client; use it as a context."""
    python = ("prlimit", f"--nofile={soft}:{hard or soft}", sys.executable)
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return OdradekProcess(directory / "node", named, python=python)


def limited(room: AttackTarget, soft: int, hard: int | None = None) -> AttackTarget:
    """Limits the open files of every broker of the room."""
    for node in room.nodes:
        node.python = ("prlimit", f"--nofile={soft}:{hard or soft}", sys.executable)  # type: ignore[attr-defined]
    return room


class Flood:
    """Connections to these addresses, opened as fast as possible and held. Each sends `sent`."""

    def __init__(self, addresses: Iterable[str], count: int, sent: bytes = b"") -> None:
        self._sockets: list[socket.socket] = []
        _allow_sockets()
        for address in addresses:
            host, _, port = address.rpartition(":")
            for _ in range(count):
                with contextlib.suppress(ConnectionError):
                    made = socket.create_connection((host, int(port)), timeout=DEADLINE_S)
                    self._sockets.append(made)
                    made.sendall(sent)

    def __len__(self) -> int:
        return len(self._sockets)

    def open_ones(self) -> int:
        """Returns the number of connections that the broker has not closed."""
        return sum(map(_is_open, self._sockets))

    def close(self) -> None:
        for made in self._sockets:
            made.close()

    def __enter__(self) -> Flood:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_open(made: socket.socket) -> bool:
    made.setblocking(False)
    try:
        while made.recv(65536):
            pass
        return False
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def _allow_sockets() -> None:
    """Raises the attacker's limit of descriptors to its maximum."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def lines_with(path: Path, words: str) -> list[str]:
    return [line for line in path.read_text(errors="replace").splitlines() if re.search(words, line)]


def awaiting(deadline_s: float = DEADLINE_S) -> Iterator[None]:
    """Yields the steps of a polling loop. Raises AssertionError at the deadline."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        yield
        time.sleep(0.02)
    raise AssertionError(f"not in {deadline_s} s")
