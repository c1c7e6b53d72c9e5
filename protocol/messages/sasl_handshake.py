"""SaslHandshake (key 17), versions 0-1."""

from __future__ import annotations

from ..schema import INT16, STRING, Message, array, message, wire


@message("0-1", key=17)
class SaslHandshakeRequest(Message):
    mechanism: str = wire(STRING)


@message("0-1", key=17)
class SaslHandshakeResponse(Message):
    error_code: int = wire(INT16)
    mechanisms: list[str] = wire(array(STRING))
