"""ConsumerGroupHeartbeat: a member joins, stays, leaves (KIP-848).

Decided in `coordinator/groups/consumer/heartbeat.py`.

Contract: `protocol/messages/consumer_group_heartbeat.py`.
"""

from __future__ import annotations

from functools import partial

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ..access.authorization.requirements import Each
from ..access.authorization.usual_requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR, consumer_groups_precondition
from ..coordinators.open_requests import Client, DescribingClient
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..services import Services

_TOPICS = Each(Operation.DESCRIBE, ResourceType.TOPIC)


def handle(services: Services, call: Call[ConsumerGroupHeartbeatRequest]) -> ConsumerGroupHeartbeatResponse | None:
    topics = call.request.subscribed_topic_names or ()
    if topics and _TOPICS.denied(services.access.authorizer, call, topics):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    services.coordinators.groups.submit(
        call.request.group_id, call.request, call.version, _client(services, call), call.reply
    )
    return None


def _client(services: Services, call: Call[ConsumerGroupHeartbeatRequest]) -> Client:
    """Returns the client, with the topics of regular expressions that it may describe."""
    authorizer = services.access.authorizer
    if authorizer is None:
        return call
    session = authorizer.session_of(call.principal, call.client_host, call.api.name)
    allowed = partial(session.allowed_names, _TOPICS.operation, _TOPICS.resource_type, log_denied=False)
    return DescribingClient(call.client_id, call.client_host, allowed)


ENDPOINT: ApiEndpoint[ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse] = ApiEndpoint(
    handle=handle,
    precondition=consumer_groups_precondition,
    authorization=(on_group(), _TOPICS),
    place=GROUP_COORDINATOR,
    most_items=20_000,  # a member names the partitions that it owns
)
