"""Envelope (key 58): a request that a broker hands on to the controller for a client.

It holds the whole request with its header, the client's principal and address; the response holds the whole response.
Only from brokers (CLUSTER_AUTHORIZATION_FAILED else), and only for requests that may be handed on (KIP-590).

Version 0, flexible.

The principal, `DefaultPrincipalData`, is preceded by its version, an int16. Kafka's default principal builder reads and
writes it.
"""

from __future__ import annotations

from ..schema import BYTES, INT16, Message, Request, message, wire


@message("0", flexible="0+", key=58)
class EnvelopeRequest(Request["EnvelopeResponse"]):
    request_data: bytes = wire(BYTES)
    request_principal: bytes | None = wire(BYTES, nullable="0+")
    client_host_address: bytes = wire(BYTES)


@message("0", flexible="0+", key=58)
class EnvelopeResponse(Message):
    response_data: bytes | None = wire(BYTES, nullable="0+", default=None)
    error_code: int = wire(INT16)
