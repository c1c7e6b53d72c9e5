"""ExpireDelegationToken (key 40): brings a token's expiry forward, a negative period ends it at once.

For its owner and its renewers (KIP-48).

Versions 1-2, flexible from 2.
"""

from __future__ import annotations

from ..schema import BYTES, INT16, INT32, INT64, Message, Request, message, wire


@message("1-2", flexible="2+", key=40)
class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"]):
    hmac: bytes = wire(BYTES)
    expiry_time_period_ms: int = wire(INT64)


@message("1-2", flexible="2+", key=40)
class ExpireDelegationTokenResponse(Message):
    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)
