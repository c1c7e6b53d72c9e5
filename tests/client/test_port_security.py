"""The security of a port, as a second connection reads it: of brokers, and of peers that send anything."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import odradek
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client.faults import Fault, Kind, PortSecurity
from odradek.client.port_security import fault_of_port

from tests.harness.examples import examples

pytestmark = pytest.mark.usefixtures("sockets")
TIMEOUT_S = 20.0
#: Limit for peers that promise more bytes than they send.
HANGING_S = 0.1


@contextlib.contextmanager
def peer(pieces: list[bytes]) -> Iterator[tuple[str, int]]:
    """The address of a peer that answers each request with the next piece, and ends the connection after the last."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted, _ = server.accept()
                    with accepted, contextlib.suppress(OSError):
                        for piece in pieces:
                            accepted.recv(1024)
                            accepted.sendall(piece)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_ports_of_brokers() -> None:
    with odradek.Broker() as none, odradek.Broker(security="plain") as secured:
        addresses = [one.bootstrap_servers.rpartition(":") for one in (none, secured)]
        plain, encrypted = [(host, int(port)) for host, _, port in addresses]
        assert fault_of_port(plain, None, TIMEOUT_S, has_login=False) is None
        for has_login in (False, True):
            found = fault_of_port(encrypted, None, TIMEOUT_S, has_login=has_login)
            assert found is not None and found.security is PortSecurity.TLS


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=3), st.booleans())
def test_peer_that_sends_anything_is_no_failure(pieces: list[bytes], has_login: bool) -> None:
    with peer(pieces) as address:
        found = fault_of_port(address, None, HANGING_S, has_login=has_login)
    assert found is None or isinstance(found, Fault)
    if found is not None and found.security is PortSecurity.LOGIN:
        assert found.mechanisms.isprintable() and len(found.mechanisms) <= 200


@pytest.mark.parametrize("first", [b"", b"\0\0\0\x0a" + b"\0\0\0\1" + b"\0\0" + b"\0\0\0\0"])
def test_peer_that_sends_a_byte_now_and_then_is_given_up(first: bytes) -> None:
    ended = threading.Event()

    def drip(listening: socket.socket) -> None:
        accepted, _ = listening.accept()
        with accepted, contextlib.suppress(OSError):
            accepted.sendall(first + b"\0\0")
            while not ended.wait(0.02):
                accepted.sendall(b"\1")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,))
        thread.start()
        began = time.monotonic()
        assert fault_of_port(listening.getsockname(), None, 0.5, has_login=False) is None
        assert time.monotonic() - began < TIMEOUT_S / 4
        ended.set()
        thread.join()


def test_mechanisms_of_a_port_with_a_login_are_shown() -> None:
    versions = b"\0\0\0\x0a" + b"\0\0\0\1" + b"\0\0" + b"\0\0\0\0"
    names = b"".join(len(name).to_bytes(2, "big") + name for name in (b"PLAIN", b"SCRAM-SHA-512"))
    body = b"\0\0\0\2" + b"\0\x21" + b"\0\0\0\2" + names
    with peer([versions, len(body).to_bytes(4, "big") + body]) as address:
        found = fault_of_port(address, None, TIMEOUT_S, has_login=False)
    assert found is not None and found.security is PortSecurity.LOGIN and found.mechanisms == "PLAIN, SCRAM-SHA-512"


@pytest.mark.parametrize(
    "first", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"220 mail ESMTP\r\n"]
)
def test_port_of_another_protocol_is_named(first: bytes) -> None:
    with peer([first]) as address:
        for has_login in (False, True):
            found = fault_of_port(address, None, TIMEOUT_S, has_login=has_login)
            assert found is not None and found.kind is Kind.FOREIGN and "does not speak Kafka" in found.words
