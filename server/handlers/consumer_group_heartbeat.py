"""ConsumerGroupHeartbeat (KIP-848), versions 0-1. See coordinator/groups/consumer/heartbeat.py."""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ..api.consumer_protocol import has_consumer_groups
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> ConsumerGroupHeartbeatResponse | None:
    if not has_consumer_groups(services):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    services.groups.submit(call.request.group_id, call.request, call.version, call, call.reply)
    return None
