"""ShareGroupHeartbeat: a member of a share group joins, stays, leaves.

Contract: `protocol/messages/share_group_heartbeat.py`.
"""

from __future__ import annotations

from functools import partial

from ...coordinator.groups.share.persister_requests import Followed
from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from ...protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ..access.authorization.requirements import Each
from ..access.authorization.usual_requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..services import Services
from ..share.share_preconditions import share_groups_precondition

_TOPICS = Each(Operation.DESCRIBE, ResourceType.TOPIC)


def handle(services: Services, call: Call[ShareGroupHeartbeatRequest]) -> ShareGroupHeartbeatResponse | None:
    topics = call.request.subscribed_topic_names or ()
    if topics and _TOPICS.denied(services.access.authorizer, call, topics):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    services.coordinators.groups.submit(
        call.request.group_id, call.request, call.version, call, partial(_reply, services, call)
    )
    return None


def _reply(
    services: Services, call: Call[ShareGroupHeartbeatRequest], response: Followed[ShareGroupHeartbeatResponse]
) -> None:
    call.reply(response.response)
    if isinstance(response.request, InitializeShareGroupStateRequest):
        services.share.group_states().initialize(response.request)


ENDPOINT: ApiEndpoint[ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse] = ApiEndpoint(
    handle=handle,
    precondition=share_groups_precondition,
    authorization=(on_group(), _TOPICS),
    place=GROUP_COORDINATOR,
)
