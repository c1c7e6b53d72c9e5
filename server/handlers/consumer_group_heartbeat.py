"""ConsumerGroupHeartbeat (KIP-848), versions 0-1. See coordinator/groups/consumer/heartbeat.py."""

from __future__ import annotations

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ...protocol.schema import Message
from ..api.authorization import denied_names, group_error
from ..api.consumer_protocol import has_consumer_groups
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> Message | None:
    if not has_consumer_groups(services):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if validation_error := group_error(services, call):
        return validation_error
    topics = call.request.subscribed_topic_names or ()
    if topics and denied_names(services, call, Operation.DESCRIBE, ResourceType.TOPIC, topics):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    services.groups.submit(call.request.group_id, call.request, call.version, call, call.reply)
    return None
