"""Slow clients of every HTTP port: others are served meanwhile, health first, and the slow ones are cut off."""

from __future__ import annotations

import http.client
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress

import odradek
import pytest
from odradek.bounded_http import BoundedHandler, BoundedServer
from odradek.cli.processes import endpoint
from odradek.console import connections
from odradek.server.observability import subsystem as observability
from odradek.testing.control_port import ControlPort
from odradek.testing.registry.server import SchemaRegistry

from compat_tests.recipes import eventually
from tests.hostile.harness.open_sockets import is_open
from tests.hostile.harness.served_console import served_console

pytestmark = pytest.mark.usefixtures("sockets")

#: Connections of one attack: more than any port takes, fewer than the descriptors of this process.
SLOW = 600
#: Deadlines of this test's ports, and a response on a busy machine.
DEADLINE_S, MOST_RESPONSE_S = 1.0, 5.0

Port = tuple[int, str]


@contextmanager
def console_port() -> Iterator[Port]:
    with served_console("127.0.0.1:1") as port:
        yield port, "/health"


@contextmanager
def metrics_port() -> Iterator[Port]:
    with odradek.Broker(config={"odradek.metrics.port": 0}) as broker:
        (server,) = broker._here().servers.values()
        subsystem = next(one for one in server.subsystems if isinstance(one, observability.ObservabilitySubsystem))
        yield subsystem.address[1], "/health/live"


@contextmanager
def service_port() -> Iterator[Port]:
    made = endpoint.ServiceEndpoint("127.0.0.1", 0, dict)
    try:
        yield made.port, "/health/live"
    finally:
        made.stop()


@contextmanager
def registry_port() -> Iterator[Port]:
    with SchemaRegistry() as made:
        yield int(made.url.rpartition(":")[2]), "/subjects"


@contextmanager
def control_port() -> Iterator[Port]:
    with odradek.Broker() as broker, ControlPort(broker) as made:
        yield int(made.url.rpartition(":")[2]), "/openapi.json"


PORTS = {one.__name__: one for one in (console_port, metrics_port, service_port, registry_port, control_port)}


@pytest.fixture(params=sorted(PORTS))
def port(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Port]:
    """Each port with short deadlines."""
    monkeypatch.setattr(connections, "HEAD_S", DEADLINE_S)
    monkeypatch.setattr(connections, "BODY_S", DEADLINE_S)
    monkeypatch.setattr(observability, "_REQUEST_DEADLINE_S", DEADLINE_S)
    for one in (BoundedServer, endpoint._Server):
        monkeypatch.setattr(one, "deadlines_s", dict.fromkeys(one.deadlines_s, DEADLINE_S))
    with PORTS[request.param]() as made:
        yield made


def silent(one: socket.socket, path: str) -> None:
    """Sends nothing."""


def half_a_head(one: socket.socket, path: str) -> None:
    one.sendall(f"GET {path} HTTP/1.1\r\nHost: local".encode())


def half_a_body(one: socket.socket, path: str) -> None:
    one.sendall(
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{{".encode()
    )


def no_reader(one: socket.socket, path: str) -> None:
    """Requests without end, whose responses stay unread."""
    with suppress(OSError):
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 50)


Attack = Callable[[socket.socket, str], None]
ATTACKS: tuple[Attack, ...] = (silent, half_a_head, half_a_body, no_reader)


def status_of(port: int, path: str) -> int:
    one = http.client.HTTPConnection("127.0.0.1", port, timeout=MOST_RESPONSE_S)
    try:
        one.request("GET", path, headers={"Host": "localhost"})
        return one.getresponse().status
    finally:
        one.close()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.__name__)
def test_port_answers_beside_slow_clients_and_cuts_them_off(port: Port, attack: Attack) -> None:
    number, path = port
    with ExitStack() as opened:
        slow = []
        for _ in range(SLOW):
            one = opened.enter_context(socket.create_connection(("127.0.0.1", number)))
            slow.append(one)
            with suppress(ConnectionError):
                attack(one, path)
        for _ in range(5):
            assert status_of(number, path) == 200
        for one in slow:
            one.setblocking(False)
        eventually(
            lambda: sum(map(is_open, slow)) == 0, what="the slow clients are cut off", deadline_s=10 * DEADLINE_S
        )
        assert status_of(number, path) == 200


def test_byte_now_and_then_makes_no_request_longer(port: Port) -> None:
    number, path = port
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", number)) as one:
        with suppress(OSError):
            for byte in f"GET {path} HTTP/1.1\r\nX-Slow: {'x' * 10_000}".encode():
                one.sendall(bytes([byte]))
                one.settimeout(0.05)
                with suppress(TimeoutError):
                    if not one.recv(1):
                        break
                assert time.monotonic() - began < 10 * DEADLINE_S
        assert time.monotonic() - began < 10 * DEADLINE_S


def test_connection_serves_further_requests(port: Port) -> None:
    """Deadlines begin anew with each request of a connection that stays open."""
    number, path = port
    one = http.client.HTTPConnection("127.0.0.1", number, timeout=MOST_RESPONSE_S)
    for _ in range(3):
        one.request("GET", path, headers={"Host": "localhost"})
        response = one.getresponse()
        assert response.status == 200
        response.read()
    one.close()


class OfOne(BoundedServer):
    """A server with room for one connection, whose response waits."""

    most_connections = 1
    is_held = threading.Event()
    may_go = threading.Event()


class Held(BoundedHandler):
    def do_GET(self) -> None:
        self.received()
        OfOne.is_held.set()
        OfOne.may_go.wait(MOST_RESPONSE_S)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_connection_waits_for_a_response_that_takes_the_last_room(sockets: None) -> None:
    server = OfOne(("127.0.0.1", 0), Held)
    server.begin("of one", 0.05)
    try:
        second = http.client.HTTPConnection("127.0.0.1", server.port, timeout=MOST_RESPONSE_S)
        with ThreadPoolExecutor(1) as others, closing(second):
            first = others.submit(status_of, server.port, "/")
            assert OfOne.is_held.wait(MOST_RESPONSE_S)
            second.request("GET", "/")
            assert select.select([second.sock], [], [], 0.3) == ([], [], []), "it is not closed"
            OfOne.may_go.set()
            assert (first.result(), second.getresponse().status) == (200, 200)
    finally:
        OfOne.may_go.set()
        server.end()
