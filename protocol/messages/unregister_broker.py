"""UnregisterBroker (key 64), versions 0, flexible from 0."""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, Message, message, wire


@message("0", flexible="0+", key=64)
class UnregisterBrokerRequest(Message):
    broker_id: int = wire(INT32)


@message("0", flexible="0+", key=64)
class UnregisterBrokerResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable="0+")
