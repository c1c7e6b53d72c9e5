"""The loads: data over TLS, handshakes and logins. Each is made for a node, and works for a number of seconds."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from odradek.client.sasl import PasswordLogin, ScramClient
from odradek.protocol.codec import decode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

from ..data_path import MIB, Bench, Peer, frame
from .nodes import PASSWORD, USER, Node
from .windows import Work

#: Clients that connect at the same time.
CONNECTING = 4
_API_VERSIONS = frame(ApiVersionsRequest(), 0)
_SASL_HANDSHAKE = frame(SaslHandshakeRequest("SCRAM-SHA-256"), 1)


def bench_of(node: Node, listener: str, tls: ssl.SSLContext | None) -> Bench:
    return Bench(node.address(listener), node.pid, 0.0, tls)


class DataLoads:
    """Produces and fetches over connections of a listener. Fetches read a topic of their own: 120 MB in batches of
    15 records of 1 kB.
    """

    def __init__(self, node: Node, listener: str, tls: ssl.SSLContext | None) -> None:
        self._make = partial(bench_of, node, listener, tls)
        self._bench = self._make()
        self._peer = Peer(self._bench.address, tls)
        self._filled: Bench | None = None

    def fetch(self, limit: int) -> Work:
        bench = self._filled
        if bench is None:
            bench = self._filled = self._make()
            bench.fill(self._peer)

        def work(seconds: float) -> int:
            bench.seconds = seconds
            return bench.fetch_all(self._peer, limit)

        return work

    def produce(self, record_bytes: int, records: int) -> Work:
        data = self._bench.produce_frame(record_bytes, records)
        return partial(self._peer.pipeline, data, 5)


def data_loads() -> dict[str, Callable[[DataLoads], Work]]:
    return {
        "produce 100 B": lambda loads: loads.produce(100, 1),
        "produce 1 MB": lambda loads: loads.produce(1000, 1000),
        "fetch 64 KiB": lambda loads: loads.fetch(65_536),
        "fetch 1 MiB": lambda loads: loads.fetch(MIB),
    }


def many(once: Callable[[], None]) -> Work:
    """Returns work that several threads repeat as often as they can."""

    def work(seconds: float) -> int:
        end = time.monotonic() + seconds
        counts = [0] * CONNECTING
        failures: list[BaseException] = []

        def one(number: int) -> None:
            try:
                while time.monotonic() < end:
                    once()
                    counts[number] += 1
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(CONNECTING)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return sum(counts)

    return work


def _connected(address: tuple[str, int]) -> socket.socket:
    found = socket.create_connection(address, timeout=30)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


class Handshakes:
    """Connections with a TLS handshake each, and one request with its response. The handshakes are full, or offer the ticket
    of an earlier connection. `share_resumed` is the share of these that the server has resumed, from 0 to 1.
    """

    def __init__(self, node: Node, tls: ssl.SSLContext, *, with_ticket: bool) -> None:
        self._node = node
        self._tls = tls
        self._session: ssl.SSLSession | None = None
        self._resumed: Counter[bool] = Counter()
        if with_ticket:
            with self._connected() as first:
                self._session = first.session
            assert self._session is not None and self._session.has_ticket, "the server gives no ticket"
        self._work = many(self._once)

    def __call__(self, seconds: float) -> int:
        return self._work(seconds)

    @property
    def share_resumed(self) -> float:
        return self._resumed[True] / self._resumed.total()

    def _once(self) -> None:
        with self._connected() as secured:
            self._resumed[bool(secured.session_reused)] += 1

    def _connected(self) -> ssl.SSLSocket:
        """Connects. A TLS 1.3 server sends its tickets after the handshake: they are there with the first response."""
        plain = _connected(self._node.address("SSL"))
        secured = self._tls.wrap_socket(plain, server_hostname="127.0.0.1", session=self._session)
        _ask(secured, _API_VERSIONS)
        return secured


def logins(node: Node) -> Work:
    """Returns the work of a connection, SaslHandshake, and SCRAM-SHA-256's two messages. The client computes PBKDF2 once."""
    return many(partial(_log_in, node))


def _log_in(node: Node) -> None:
    with _connected(node.address("SASL")) as plain:
        named = decode(SaslHandshakeResponse, 1, _ask(plain, _SASL_HANDSHAKE), 4)[0]
        assert named.error_code == 0, named
        client = ScramClient(PasswordLogin("SCRAM-SHA-256", USER, PASSWORD))
        token: bytes | None = client.first()
        while token is not None:
            response = decode(SaslAuthenticateResponse, 1, _ask(plain, frame(SaslAuthenticateRequest(token), 1)), 4)[0]
            assert response.error_code == 0, response
            token = client.respond(response.auth_bytes)
        assert client.is_complete


def _ask(connected: socket.socket, request: bytes) -> bytes:
    connected.sendall(request)
    (size,) = struct.unpack(">i", _received(connected, 4))
    return _received(connected, size)


def _received(connected: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = connected.recv(size - len(found))
        assert more, "the broker closed the connection"
        found += more
    return found
