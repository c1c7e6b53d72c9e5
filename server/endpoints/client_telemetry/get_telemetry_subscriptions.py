"""GetTelemetrySubscriptions: the metrics that a client pushes, and their format (KIP-714).

A client without an id is given one. One that asks again before its push interval is over is
THROTTLING_QUOTA_EXCEEDED, unless the subscriptions have changed. Served where something receives metrics.

Contract: `protocol/messages/get_telemetry_subscriptions.py`.
"""

from __future__ import annotations

import random
from functools import partial

from ....protocol.errors import ErrorCode
from ....protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ....protocol.records.compression import Compression
from ....protocol.uuids import ZERO_UUID
from ....replication.random_source import random_uuid
from ...access.authorization.requirements import Nothing
from ...network.api_endpoint import ApiEndpoint
from ...network.call import Call
from ...services import Services
from ...telemetry.subscriptions import client_of

#: The best first, as Kafka has them.
ACCEPTED_COMPRESSION = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


def handle(services: Services, call: Call[GetTelemetrySubscriptionsRequest]) -> GetTelemetrySubscriptionsResponse:
    telemetry = services.telemetry.clients
    assert telemetry is not None, "served only where there is telemetry"
    request = call.request
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = random_uuid(random.SystemRandom())
    describe = partial(client_of, call, instance_id)
    instance = telemetry.instances.ask(instance_id, describe, call.connection, call.now_ms)
    if isinstance(instance, ErrorCode):
        return GetTelemetrySubscriptionsResponse(error_code=instance)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(map(int, ACCEPTED_COMPRESSION)),
        push_interval_ms=instance.wanted.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.wanted.metrics),
    )


ENDPOINT: ApiEndpoint[GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse] = ApiEndpoint(
    handle=handle, authorization=(Nothing("A client gets the subscriptions that match it."),)
)
