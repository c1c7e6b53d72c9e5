"""A client that sends single requests over a socket: it retries, hides and remembers nothing.

It uses Odradek's codecs, which tests/protocol checks against Apache's own classes.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
from types import TracebackType
from typing import Any

from odradek.protocol.apis import APIS, Api
from odradek.protocol.codec import decode, encode
from odradek.protocol.headers import RequestHeader, ResponseHeader
from odradek.protocol.schema import Message

#: The client id of this client; its requests do not count as use by a client.
OWN_CLIENT_ID = "odradek-compat"
#: A frame longer than this from a test broker is a mistake, not a response.
MOST_FRAME_BYTES = 64 << 20


class ConnectionClosed(ConnectionError):
    """The broker ended the connection instead of answering."""


def api_of(request: Message) -> Api:
    key = type(request).SCHEMA.key
    assert key is not None, f"{type(request).__name__} is not a request"
    return APIS[key]


def request_frame(request: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Returns length, header and body of a request, as sent over the wire."""
    api = api_of(request)
    header = RequestHeader(
        request_api_key=api.key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    body = encode(header, api.request_header_version(version)) + encode(request, version)
    return struct.pack(">i", len(body)) + body


class WireClient:
    """A connection. `call` sends a request and returns its response; `send` and `receive` are its two steps. `tls` makes it
    a TLS connection to a server with the name of the host. `source` is the client's own address.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str | None = OWN_CLIENT_ID,
        timeout: float = 30,
        tls: ssl.SSLContext | None = None,
        source: str = "",
    ) -> None:
        host, _, port = bootstrap.rpartition(":")
        address = (host.strip("[]"), int(port))
        self._socket = socket.create_connection(address, timeout=timeout, source_address=(source, 0))
        if self._socket.getsockname() == self._socket.getpeername():
            self._socket.close()  # a client port without a listener: the socket connected to itself
            raise ConnectionRefusedError(f"no listener on {bootstrap}")
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host.strip("[]"))
        self._numbers = itertools.count(1)
        self.client_id = client_id

    def call(self, request: Message, version: int) -> Any:
        return self.receive(request, version, self.send(request, version))

    def send(self, request: Message, version: int) -> int:
        """Sends a request and returns its correlation id."""
        number = next(self._numbers)
        self.send_bytes(request_frame(request, version, number, self.client_id))
        return number

    def send_bytes(self, frame: bytes) -> None:
        try:
            self._socket.sendall(frame)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionClosed(str(error)) from None

    def receive(self, request: Message, version: int, number: int) -> Any:
        """Receives the next frame, which must be the response to the request `number`."""
        api = api_of(request)
        frame = self.receive_frame()
        header, body_at = decode(ResponseHeader, api.response_header_version(version), frame)
        assert header.correlation_id == number, f"answer {header.correlation_id} in place of {number}"
        response, end = decode(api.response, version, frame, body_at)
        assert end == len(frame), f"{len(frame) - end} bytes after {api.name} v{version}"
        return response

    def receive_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(4))
        assert 0 <= length <= MOST_FRAME_BYTES, f"a frame of {length} bytes"
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            try:
                piece = self._socket.recv(count - len(received))
            except ConnectionResetError as error:
                raise ConnectionClosed(str(error)) from None
            if not piece:
                raise ConnectionClosed("the broker closed the connection")
            received += piece
        return bytes(received)

    def fileno(self) -> int:
        """Lets a selector wait for the client's responses."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> WireClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
