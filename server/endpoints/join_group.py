"""JoinGroup: a member joins a classic group, or its rebalance (KIP-394, KIP-814).

Answered in `coordinator/groups/classic/join.py`, with the next generation of the group.

Contract: `protocol/messages/join_group.py`.
"""

from __future__ import annotations

from functools import partial

from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ..access.authorization.usual_requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR, GroupServices
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call

#: The versions whose responses may name no protocol.
WITH_PROTOCOL_TYPE = JoinGroupResponse.versions_with("protocol_type")


def handle(services: GroupServices, call: Call[JoinGroupRequest]) -> None:
    request = call.request
    reply = call.reply if call.version in WITH_PROTOCOL_TYPE else partial(_reply, call)
    services.coordinators.groups.submit(request.group_id, request, call.version, call, reply)


def _reply(call: Call[JoinGroupRequest], response: JoinGroupResponse) -> None:
    response.protocol_name = response.protocol_name or ""
    call.reply(response)


ENDPOINT: ApiEndpoint[JoinGroupRequest, JoinGroupResponse] = ApiEndpoint(
    handle=handle,
    authorization=(on_group(),),
    place=GROUP_COORDINATOR,
    wanted_wait_ms=lambda request: request.rebalance_timeout_ms,
)
