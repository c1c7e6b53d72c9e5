"""SaslAuthenticate (key 36), versions 0-2, flexible from 2."""

from __future__ import annotations

from ..schema import BYTES, INT16, INT64, STRING, Message, message, wire


@message("0-2", flexible="2+", key=36)
class SaslAuthenticateRequest(Message):
    auth_bytes: bytes = wire(BYTES)


@message("0-2", flexible="2+", key=36)
class SaslAuthenticateResponse(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable="0+")
    auth_bytes: bytes = wire(BYTES)
    session_lifetime_ms: int = wire(INT64, "1+")
