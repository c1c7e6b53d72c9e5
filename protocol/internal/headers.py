"""The two headers that stand before every request and response."""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, Message, message, wire


@message("1-2", flexible="2+")
class RequestHeader(Message):
    request_api_key: int = wire(INT16)
    request_api_version: int = wire(INT16)
    correlation_id: int = wire(INT32)
    client_id: str | None = wire(STRING, "1+", nullable="1+", may_be_compact=False)


@message("0-1", flexible="1+")
class ResponseHeader(Message):
    correlation_id: int = wire(INT32)
