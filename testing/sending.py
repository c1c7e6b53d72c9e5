"""Records that a test puts into a topic without a client of its own; faults do not strike them."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, cast

from ..protocol.apis import APIS
from ..protocol.codec import decode, encode
from ..protocol.errors import ErrorCode
from ..protocol.headers import RequestHeader, ResponseHeader
from ..protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ..protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ..protocol.messages.sasl_handshake import SaslHandshakeRequest
from ..protocol.records.record import encode_batch
from .faults.matching import OWN_CLIENT_ID

if TYPE_CHECKING:
    from ..protocol.records.record import Record
    from ..protocol.schema import Request, ResponseT
    from ..server.access.client_files import ClientFiles


_VERSION = 9
_TIMEOUT_S = 30.0


def send(address: str, topic: str, partition: int, records: list[Record], files: ClientFiles | None = None) -> int:
    """Sends records to the leader of a partition. Returns the offset of the first. Blocks. Raises RuntimeError, OSError.

    `files`: those of a secured broker, whose first user sends.
    """
    for offset, record in enumerate(records):
        record.offset = offset
    part = PartitionProduceData(index=partition, records=encode_batch(records))
    request = ProduceRequest(
        acks=-1, timeout_ms=int(_TIMEOUT_S * 1000), topic_data=[TopicProduceData(name=topic, partition_data=[part])]
    )
    with _connected(address, files) as connection:
        if files is not None and files.security.has_sasl:
            _log_in(connection, files)
        result = _ask(connection, request, _VERSION).responses[0].partition_responses[0]
    if result.error_code:
        raise RuntimeError(f"{topic}-{partition}: {ErrorCode(result.error_code).name} {result.error_message or ''}")
    return int(result.base_offset)


def _connected(address: str, files: ClientFiles | None) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    connection = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
    if files is None or not files.security.has_tls:
        return connection
    try:
        return files.ssl_context(files.security.first_user).wrap_socket(connection, server_hostname=host)
    except BaseException:
        connection.close()
        raise


def _log_in(connection: socket.socket, files: ClientFiles) -> None:
    """Raises RuntimeError."""
    from ..client.sasl import PasswordLogin

    security = files.security
    user = security.first_user
    exchange = PasswordLogin(security.mechanism, user, security.users[user]).client("")
    _ask(connection, SaslHandshakeRequest(mechanism=security.mechanism), 1)
    token: bytes | None = exchange.first()
    while token is not None:
        response = _ask(connection, SaslAuthenticateRequest(auth_bytes=token), 1)
        if response.error_code:
            raise RuntimeError(f"the broker rejected the login of {user}: {response.error_message}")
        token = exchange.respond(response.auth_bytes)


def _ask(connection: socket.socket, request: Request[ResponseT], version: int) -> ResponseT:
    api = APIS[request.SCHEMA.key or 0]
    header = RequestHeader(
        request_api_key=api.key, request_api_version=version, correlation_id=1, client_id=OWN_CLIENT_ID
    )
    data = encode(header, api.request_header_version(version)) + encode(request, version)
    connection.sendall(struct.pack(">i", len(data)) + data)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    response = _exactly(connection, size)
    _, at = decode(ResponseHeader, api.response_header_version(version), response)
    return cast("ResponseT", decode(api.response, version, response, at)[0])


def _exactly(connection: socket.socket, count: int) -> bytes:
    """Raises ConnectionError where the broker ends the connection."""
    received = bytearray()
    while len(received) < count:
        piece = connection.recv(count - len(received))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        received += piece
    return bytes(received)
