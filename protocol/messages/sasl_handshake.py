"""SaslHandshake (key 17): the client names its SASL mechanism.

UNSUPPORTED_SASL_MECHANISM lists those that are enabled. After version 1 the tokens travel in SaslAuthenticate, after
version 0 they come bare.

Versions 0-1, never flexible. Additions by version:
- 1: tokens follow in SaslAuthenticate (KIP-152)
"""

from __future__ import annotations

from ..schema import INT16, STRING, Message, Request, array, message, wire


@message("0-1", key=17)
class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    mechanism: str = wire(STRING)


@message("0-1", key=17)
class SaslHandshakeResponse(Message):
    error_code: int = wire(INT16)
    mechanisms: list[str] = wire(array(STRING))
