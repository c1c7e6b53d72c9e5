"""Handshakes of TLS that do not continue, on the console's port: others are served meanwhile, the health too."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvicorn
from odradek.admin.connection import Connection
from odradek.console.application import application
from odradek.console.backend import Backend
from odradek.console.command import server_config
from odradek.console.handshakes import MOST_HANDSHAKES, HandshakeListener
from odradek.console.settings import Settings

from compat_tests.recipes import eventually
from tests.hostile.harness.open_sockets import is_open
from tests.server.harness.certificates import Authority

pytestmark = pytest.mark.usefixtures("sockets")

SLOW, DEADLINE_S = 3 * MOST_HANDSHAKES, 60.0
#: Bytes of a client before it stops: none, a part of a ClientHello, one byte.
BEGINNINGS = {"silent": b"", "half a hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "one byte": b"\x16"}


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    certificate = Authority().issue(name="localhost").pem(tmp_path / "console.pem")
    listener = HandshakeListener(socket.AF_INET)
    listener.bind(("127.0.0.1", 0))
    backend = Backend(Connection({"bootstrap.servers": "127.0.0.1:1"}), Settings())
    config = server_config(application(backend), certificate, certificate, listener)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="console-loop")
    thread.start()
    try:
        eventually(lambda: server.started, what="the console listens")
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(DEADLINE_S)


def health(port: int) -> bytes:
    context = ssl._create_unverified_context()
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as one, context.wrap_socket(one) as secure:
        secure.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return secure.recv(1 << 16).split(b"\r\n")[0]


@pytest.mark.parametrize("beginning", sorted(BEGINNINGS))
def test_console_serves_beside_handshakes_that_do_not_continue(port: int, beginning: str) -> None:
    with ExitStack() as opened:
        slow = []
        for _ in range(SLOW):
            one = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            one.sendall(BEGINNINGS[beginning])
            one.setblocking(False)
            slow.append(one)
        for _ in range(5):
            assert health(port) == b"HTTP/1.1 200 OK"
        eventually(
            lambda: sum(map(is_open, slow)) <= MOST_HANDSHAKES, what="the oldest are cut off", deadline_s=DEADLINE_S
        )
    assert health(port) == b"HTTP/1.1 200 OK"
