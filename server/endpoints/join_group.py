"""JoinGroup (key 11), versions 0-9: a member joins a classic group, or its rebalance (KIP-394, KIP-814).

Answered in `coordinator/groups/classic/join.py`, with the next generation of the group.
"""

from __future__ import annotations

from functools import partial

from ...protocol.messages.groups import JoinGroupRequest, JoinGroupResponse
from ..access.authorization.requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR, GroupServices
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call

#: The first version whose responses may name no protocol.
NO_PROTOCOL_VERSION = 7


def handle(services: GroupServices, call: Call) -> None:
    request: JoinGroupRequest = call.request
    reply = call.reply if call.version >= NO_PROTOCOL_VERSION else partial(_reply, call)
    services.coordinators.groups.submit(request.group_id, request, call.version, call, reply)


def _reply(call: Call, response: JoinGroupResponse) -> None:
    response.protocol_name = response.protocol_name or ""
    call.reply(response)


ENDPOINT = ApiEndpoint(
    handle=handle,
    authorization=(on_group(),),
    place=GROUP_COORDINATOR,
    wanted_wait_ms=lambda request: request.rebalance_timeout_ms,
)
