"""RenewDelegationToken (key 39): puts off a token's expiry, up to its maximum lifetime.

For its owner and its renewers (KIP-48).

Versions 1-2, flexible from 2.
"""

from __future__ import annotations

from ..schema import BYTES, INT16, INT32, INT64, Message, Request, message, wire


@message("1-2", flexible="2+", key=39)
class RenewDelegationTokenRequest(Request["RenewDelegationTokenResponse"]):
    hmac: bytes = wire(BYTES)
    renew_period_ms: int = wire(INT64)


@message("1-2", flexible="2+", key=39)
class RenewDelegationTokenResponse(Message):
    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)
