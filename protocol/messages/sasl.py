"""Logins by SASL: choice of the mechanism, and its exchange."""

from __future__ import annotations

from ..schema import BYTES, ERROR_TEXT, INT16, INT64, STRING, Message, array, message, wire

# SaslHandshake (key 17): the client names its SASL mechanism.
#
# UNSUPPORTED_SASL_MECHANISM lists those that are enabled. After version 1 the tokens travel in SaslAuthenticate, after
# version 0 they come bare.
#
# Versions 0-1, never flexible. Additions by version:
# - 1: tokens follow in SaslAuthenticate (KIP-152)


@message("0-1", key=17)
class SaslHandshakeRequest(Message):
    mechanism: str = wire(STRING)


@message("0-1", key=17)
class SaslHandshakeResponse(Message):
    error_code: int = wire(INT16)
    mechanisms: list[str] = wire(array(STRING))


# SaslAuthenticate (key 36): one step of the SASL exchange.
#
# Client and server tokens go back and forth until the mechanism is done. SASL_AUTHENTICATION_FAILED closes the
# connection, after `connection.failed.authentication.delay.ms`.
#
# Versions 0-2, flexible from 2. Additions by version:
# - 1: how long the session lasts before the client must authenticate again (KIP-368)


@message("0-2", flexible="2+", key=36)
class SaslAuthenticateRequest(Message):
    auth_bytes: bytes = wire(BYTES)


@message("0-2", flexible="2+", key=36)
class SaslAuthenticateResponse(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    auth_bytes: bytes = wire(BYTES)
    session_lifetime_ms: int = wire(INT64, "1+")
