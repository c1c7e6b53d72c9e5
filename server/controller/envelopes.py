"""Envelopes: a client's request with its principal, forwarded to the active controller (KIP-590)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ...protocol.apis import APIS
from ...protocol.codec import MalformedMessage, decode, encode
from ...protocol.errors import ErrorCode
from ...protocol.headers import RequestHeader, ResponseHeader
from ...protocol.messages.default_principal_data import DefaultPrincipalData
from ...protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ...protocol.schema import Message, Request, ResponseCallback
from ...replication.controller.controller import error_response
from ...replication.controller.result import RequestError
from ..network.addresses import encoded_client_host

if TYPE_CHECKING:
    from .controller_request import ClientFields

_CLIENT_ID = "odradek"
_PRINCIPAL_VERSION = 0


class Forwarded:
    """A request until its reply was called."""

    __slots__ = ("client", "deadline_ms", "enveloped", "reply", "request", "version")

    def __init__(
        self,
        request: Request,
        version: int,
        reply: ResponseCallback,
        client: ClientFields,
        deadline_ms: int,
        enveloped: bool,
    ) -> None:
        self.request = request
        self.version = version
        self.reply = reply
        self.client = client
        self.deadline_ms = deadline_ms
        self.enveloped = enveloped


def enveloped(forwarded: Forwarded) -> EnvelopeRequest:
    key = forwarded.request.SCHEMA.key
    assert key is not None
    header = RequestHeader(
        request_api_key=key,
        request_api_version=forwarded.version,
        correlation_id=0,
        client_id=forwarded.client.get("client_id", _CLIENT_ID),
    )
    head = encode(header, APIS[key].request_header_version(forwarded.version))
    return EnvelopeRequest(
        request_data=head + encode(forwarded.request, forwarded.version),
        request_principal=encoded_principal(
            forwarded.client.get("principal"), is_token=forwarded.client.get("is_token_authenticated", False)
        ),
        client_host_address=encoded_client_host(forwarded.client.get("client_host")),
    )


def encoded_principal(principal: str | None, *, is_token: bool = False) -> bytes:
    """Encodes `User:name` as Kafka's DefaultKafkaPrincipalBuilder does."""
    kind, _, name = (principal or "User:ANONYMOUS").partition(":")
    data = DefaultPrincipalData(type=kind, name=name, token_authenticated=is_token)
    return struct.pack(">h", _PRINCIPAL_VERSION) + encode(data, _PRINCIPAL_VERSION)


def decoded_principal(data: bytes | None) -> tuple[str, bool]:
    """Returns the principal, and whether it has logged in with a delegation token. Raises MalformedMessage."""
    if data is None:
        return "User:ANONYMOUS", False
    if len(data) < 2 or struct.unpack_from(">h", data)[0] != _PRINCIPAL_VERSION:
        raise MalformedMessage("a principal of an unknown version")
    principal, _ = decode(DefaultPrincipalData, _PRINCIPAL_VERSION, data, 2)
    return f"{principal.type}:{principal.name}", principal.token_authenticated


def unwrapped(forwarded: Forwarded, response: EnvelopeResponse) -> Message | None:
    """Returns the response in the envelope; None when the request has to be sent again."""
    if response.error_code == ErrorCode.NOT_CONTROLLER:
        return None
    validation_error = error_response(
        forwarded.request, forwarded.version, RequestError(ErrorCode.UNKNOWN_SERVER_ERROR)
    )
    if response.error_code != ErrorCode.NONE or response.response_data is None:
        return validation_error
    key = forwarded.request.SCHEMA.key
    assert key is not None
    api, version = APIS[key], forwarded.version
    try:
        _, pos = decode(ResponseHeader, api.response_header_version(version), response.response_data)
        return decode(api.response, version, response.response_data, pos)[0]
    except MalformedMessage:
        return validation_error
