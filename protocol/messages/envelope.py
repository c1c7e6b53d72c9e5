"""Envelope (key 58), versions 0, flexible from 0."""

from __future__ import annotations

from ..schema import BYTES, INT16, Message, message, wire


@message("0", flexible="0+", key=58)
class EnvelopeRequest(Message):
    request_data: bytes = wire(BYTES)
    request_principal: bytes | None = wire(BYTES, nullable="0+")
    client_host_address: bytes = wire(BYTES)


@message("0", flexible="0+", key=58)
class EnvelopeResponse(Message):
    response_data: bytes | None = wire(BYTES, nullable="0+", default=None)
    error_code: int = wire(INT16)
