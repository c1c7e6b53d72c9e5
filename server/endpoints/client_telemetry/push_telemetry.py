"""PushTelemetry: metrics of a client, as OTLP (KIP-714).

The errors and their order are in `server/telemetry/client_telemetry.py`. An unreadable push is INVALID_RECORD.

Contract: `protocol/messages/push_telemetry.py`.
"""

from __future__ import annotations

from functools import partial

from ....protocol.errors import ErrorCode
from ....protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ....protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID
from ...access.authorization.requirements import Nothing
from ...network.api_endpoint import ApiEndpoint
from ...network.call import Call
from ...services import Services
from ...telemetry.instances import Push
from ...telemetry.subscriptions import client_of


def handle(services: Services, call: Call[PushTelemetryRequest]) -> PushTelemetryResponse | None:
    telemetry = services.telemetry.clients
    assert telemetry is not None, "served only where there is telemetry"
    request = call.request
    instance_id, metrics = request.client_instance_id, request.metrics
    if instance_id in (ZERO_UUID, METADATA_TOPIC_ID):
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)

    def done(error_code: int) -> None:
        if not call.connection.closed:
            call.reply(PushTelemetryResponse(error_code=error_code))

    push = Push(request.subscription_id, request.terminating, request.compression_type, len(metrics))
    describe = partial(client_of, call, instance_id)
    telemetry.push(instance_id, describe, call.connection, call.principal, push, metrics, done)
    return None


ENDPOINT: ApiEndpoint[PushTelemetryRequest, PushTelemetryResponse] = ApiEndpoint(
    handle=handle, authorization=(Nothing("A client pushes its own metrics."),)
)
