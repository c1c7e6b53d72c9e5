"""The connection that blocks until each response, against real brokers and against a peer that breaks the protocol."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from ssl import create_default_context

import odradek
import pytest
from odradek.client.blocking import BlockingConnection
from odradek.client.errors import LoginRejected, NoResponse
from odradek.client.sasl import PasswordLogin
from odradek.protocol.codec import MalformedMessage, encode
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

pytestmark = pytest.mark.usefixtures("sockets")
TIMEOUT_S = 20.0
VERSIONS = (1, 8, 9, 12)
RESPONSE = encode(MetadataResponse(brokers=[], topics=[]), 1)

Connected = contextlib.closing[BlockingConnection]


def address_of(broker: odradek.Broker) -> tuple[str, int]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return host, int(port)


@contextlib.contextmanager
def peer(response: Callable[[socket.socket], object]) -> Iterator[tuple[str, int]]:
    """The address of a peer that reads one request and then runs `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            accepted, _ = server.accept()
            with accepted:
                accepted.recv(4096)
                response(accepted)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()
        finally:
            thread.join()


def frame(correlation_id: int, body: bytes = RESPONSE) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def test_requests_of_all_header_versions_get_their_responses() -> None:
    with odradek.Broker() as broker:
        broker.topic("sales").create()
        with Connected(BlockingConnection(address_of(broker), "test", TIMEOUT_S)) as connection:
            for version in VERSIONS:
                found = connection.ask(MetadataRequest(topics=None), version)
                assert [topic.name for topic in found.topics] == ["sales"]


def test_scram_over_tls_logs_in_and_a_wrong_password_does_not() -> None:
    with odradek.Broker(security="scram") as secured:
        settings = secured.client_settings("confluent-kafka")
        tls = create_default_context(cafile=settings["ssl.ca.location"])

        def connect(password: str) -> BlockingConnection:
            login = PasswordLogin("SCRAM-SHA-512", settings["sasl.username"], password)
            return BlockingConnection(address_of(secured), "test", TIMEOUT_S, tls, login)

        with Connected(connect(settings["sasl.password"])) as connection:
            assert len(connection.ask(MetadataRequest(topics=[]), 1).brokers) == 1
        with pytest.raises(LoginRejected, match="rejected the login of"):
            connect("wrong")


@pytest.mark.parametrize(
    ("sent", "raised", "words"),
    [
        (b"", NoResponse, "ended the connection"),
        (frame(1)[:-1], NoResponse, "ended the connection"),
        (struct.pack(">i", -1), MalformedMessage, "a response of -1 bytes"),
        (struct.pack(">i", 1 << 30 | 1), MalformedMessage, "a response of"),
        (frame(2), MalformedMessage, "another request"),
        (frame(1, b"\xff"), MalformedMessage, "brokers"),
    ],
)
def test_response_that_breaks_the_protocol_raises(sent: bytes, raised: type[Exception], words: str) -> None:
    with (
        peer(lambda accepted: accepted.sendall(sent)) as address,
        Connected(BlockingConnection(address, "test", TIMEOUT_S)) as connection,
        pytest.raises(raised, match=words),
    ):
        connection.ask(MetadataRequest(topics=[]), 1)


def test_limit_of_time_holds_for_a_response_that_arrives_in_drops() -> None:
    ended = threading.Event()

    def drip(accepted: socket.socket) -> None:
        accepted.sendall(struct.pack(">i", 1000))
        with contextlib.suppress(OSError):
            while not ended.wait(0.02):
                accepted.sendall(b"\0")

    began = time.monotonic()
    with peer(drip) as address, Connected(BlockingConnection(address, "test", 0.3)) as connection:
        try:
            with pytest.raises((NoResponse, TimeoutError)):
                connection.ask(MetadataRequest(topics=[]), 1)
        finally:
            ended.set()
    assert 0.3 <= time.monotonic() - began < TIMEOUT_S
