"""GetTelemetrySubscriptions (key 71): which metrics a client shall push, how often and how.

A client without an id is given one. Only offered when something receives client metrics (KIP-714).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import BOOL, INT8, INT16, INT32, STRING, UUID, Message, Request, array, message, wire


@message("0", flexible="0+", key=71)
class GetTelemetrySubscriptionsRequest(Request["GetTelemetrySubscriptionsResponse"]):
    client_instance_id: bytes = wire(UUID)


@message("0", flexible="0+", key=71)
class GetTelemetrySubscriptionsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    client_instance_id: bytes = wire(UUID)
    subscription_id: int = wire(INT32)
    accepted_compression_types: list[int] = wire(array(INT8))
    push_interval_ms: int = wire(INT32)
    telemetry_max_bytes: int = wire(INT32)
    delta_temporality: bool = wire(BOOL)
    requested_metrics: list[str] = wire(array(STRING))
