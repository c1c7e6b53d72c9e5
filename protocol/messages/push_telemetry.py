"""PushTelemetry (key 72): a client's metrics, as OTLP, compressed as agreed.

UNKNOWN_SUBSCRIPTION_ID has the client ask anew; too early is THROTTLING_QUOTA_EXCEEDED, too large TELEMETRY_TOO_LARGE
(KIP-714).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import BOOL, BYTES, INT8, INT16, INT32, UUID, Message, Request, message, wire


@message("0", flexible="0+", key=72)
class PushTelemetryRequest(Request["PushTelemetryResponse"]):
    client_instance_id: bytes = wire(UUID)
    subscription_id: int = wire(INT32)
    terminating: bool = wire(BOOL)
    compression_type: int = wire(INT8)
    metrics: bytes = wire(BYTES)


@message("0", flexible="0+", key=72)
class PushTelemetryResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
