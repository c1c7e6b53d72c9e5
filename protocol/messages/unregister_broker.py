"""UnregisterBroker (key 64): removes a broker that is gone for good.

Its registration goes, so that it counts no longer for features and is shown no more (KIP-631).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, Message, Request, message, wire


@message("0", flexible="0+", key=64)
class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"]):
    broker_id: int = wire(INT32)


@message("0", flexible="0+", key=64)
class UnregisterBrokerResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
