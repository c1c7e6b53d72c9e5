"""ConsumerGroupHeartbeat (KIP-848), versions 0-1. See coordinator/groups/consumer/heartbeat.py."""

from __future__ import annotations

from functools import partial

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ...protocol.schema import Message
from ..api.authorization import denied_names, group_error
from ..api.consumer_protocol import has_consumer_groups
from ..coordinators.pending_requests import Client, DescribingClient
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
    services.groups.submit(call.request.group_id, call.request, call.version, _client(services, call), call.reply)
    return None


def _client(services: Services, call: Call) -> Client:
    """Returns the client, with the topics of regular expressions that it may describe."""
    authorizer = services.authorizer
    if authorizer is None:
        return call
    session = authorizer.session_of(call.principal, call.client_host, call.api.name)
    allowed = partial(session.allowed_names, Operation.DESCRIBE, ResourceType.TOPIC, log_denied=False)
    return DescribingClient(call.client_id, call.client_host, allowed)
