"""SaslAuthenticate (key 36): one step of the SASL exchange.

Client and server tokens go back and forth until the mechanism is done. SASL_AUTHENTICATION_FAILED closes the
connection, after `connection.failed.authentication.delay.ms`.

Versions 0-2, flexible from 2. Additions by version:
- 1: how long the session lasts before the client must authenticate again (KIP-368)
"""

from __future__ import annotations

from ..schema import BYTES, ERROR_TEXT, INT16, INT64, Message, Request, message, wire


@message("0-2", flexible="2+", key=36)
class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    auth_bytes: bytes = wire(BYTES)


@message("0-2", flexible="2+", key=36)
class SaslAuthenticateResponse(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    auth_bytes: bytes = wire(BYTES)
    session_lifetime_ms: int = wire(INT64, "1+")
