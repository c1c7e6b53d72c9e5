"""An attacker's connection: the attack goes on if the broker closes the connection, rejects a request or never answers."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable
from types import TracebackType

from odradek.protocol.apis import Api
from odradek.protocol.codec import encode
from odradek.protocol.headers import RequestHeader
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.schema import Message

from compat_tests.wire import WireClient, api_of

#: The time that an attacker waits for a response.
PATIENCE_S = 60
CLIENT_ID = "attacker"


def framed(api: Api, version: int, body: bytes, *, correlation_id: int = 1) -> bytes:
    """Returns a hand-made body with its length and header."""
    header = RequestHeader(
        request_api_key=api.key, request_api_version=version, correlation_id=correlation_id, client_id=CLIENT_ID
    )
    whole = encode(header, api.request_header_version(version)) + body
    return len(whole).to_bytes(4, "big") + whole


def request_frame_of(request: Message, version: int) -> bytes:
    return framed(api_of(request), version, encode(request, version))


class Attacker:
    """An attacker's connection. `receive_buffer`: the socket's buffer for responses, for attackers that do not read."""

    def __init__(self, address: str, *, patience_s: float = PATIENCE_S, receive_buffer: int | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.settimeout(patience_s)
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.is_open = True
        try:
            self._socket.connect((host.strip("[]"), int(port)))
        except OSError:
            self.close()

    def send(self, data: bytes) -> bool:
        """Returns False if the broker has closed the connection or does not read the bytes in time."""
        try:
            self._socket.sendall(data)
        except OSError:
            self.close()
        return self.is_open

    def exchange(self, frame: bytes) -> bytes | None:
        """Returns the response to one request without its length; None if the broker closes or does not answer in time."""
        return self.receive() if self.send(frame) else None

    def receive(self) -> bytes | None:
        head = self._exactly(4)
        return None if head is None else self._exactly(int.from_bytes(head, "big"))

    def close(self) -> None:
        self.is_open = False
        self._socket.close()

    def _exactly(self, count: int) -> bytes | None:
        received = bytearray(count)
        view, filled = memoryview(received), 0
        while filled < count:
            try:
                size = self._socket.recv_into(view[filled:])
            except OSError:
                size = 0
            if not size:
                self.close()
                return None
            filled += size
        return bytes(received)

    def __enter__(self) -> Attacker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def send_each(address: str, frames: Iterable[bytes], *, patience_s: float = PATIENCE_S) -> list[bytes | None]:
    """Sends each frame over a new connection, one after the other. Returns the responses."""
    responses = []
    for frame in frames:
        with Attacker(address, patience_s=patience_s) as attacker:
            responses.append(attacker.exchange(frame))
    return responses


def make_topic(addresses: list[str], name: str, *, partitions: int = 1, replicas: int = 1, **configs: str) -> str:
    """Creates a topic for an attack. Returns the address of its first partition's leader."""
    settings = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    topic = CreatableTopic(name, partitions, replicas, configs=settings)
    with WireClient(addresses[0], client_id=CLIENT_ID) as client:
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        while True:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
            response = client.call(request, 9)
            brokers = {broker.node_id: f"{broker.host}:{broker.port}" for broker in response.brokers}
            with contextlib.suppress(IndexError, KeyError):
                return brokers[response.topics[0].partitions[0].leader_id]
