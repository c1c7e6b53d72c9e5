"""Metrics that clients push (KIP-714)."""

from __future__ import annotations

from ..schema import BOOL, BYTES, INT8, INT16, INT32, STRING, UUID, Message, array, message, wire

# GetTelemetrySubscriptions (key 71): which metrics a client shall push, how often and how.
#
# A client without an id is given one. Only offered when something receives client metrics (KIP-714).
#
# Version 0, flexible.


@message("0", flexible="0+", key=71)
class GetTelemetrySubscriptionsRequest(Message):
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


# PushTelemetry (key 72): a client's metrics, as OTLP, compressed as agreed.
#
# UNKNOWN_SUBSCRIPTION_ID has the client ask anew; too early is THROTTLING_QUOTA_EXCEEDED, too large TELEMETRY_TOO_LARGE
# (KIP-714).
#
# Version 0, flexible.


@message("0", flexible="0+", key=72)
class PushTelemetryRequest(Message):
    client_instance_id: bytes = wire(UUID)
    subscription_id: int = wire(INT32)
    terminating: bool = wire(BOOL)
    compression_type: int = wire(INT8)
    metrics: bytes = wire(BYTES)


@message("0", flexible="0+", key=72)
class PushTelemetryResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
