"""LeaveGroup (key 13), versions 0-5: members leave a classic group (KIP-345).

Decided in `coordinator/groups/classic/join.py`.

Up to version 2 one member leaves, and its error is the response's; the coordinator takes the later form only.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.groups import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ..access.authorization.requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..network.api_endpoint import ApiEndpoint, Portioning
from ..network.call import Call
from ..services import Services

#: The first version in which several members leave at once.
SEVERAL_MEMBERS_VERSION = 3


def handle(services: Services, call: Call) -> None:
    request: LeaveGroupRequest = call.request
    if call.version < SEVERAL_MEMBERS_VERSION:
        request.members = [MemberIdentity(member_id=request.member_id)]

    def reply(response: LeaveGroupResponse) -> None:
        if call.version < SEVERAL_MEMBERS_VERSION and response.error_code == ErrorCode.NONE:
            response.error_code = response.members[0].error_code
        call.reply(response)

    services.coordinators.groups.submit(request.group_id, request, call.version, call, reply)


ENDPOINT = ApiEndpoint(
    handle=handle,
    authorization=(on_group(),),
    place=GROUP_COORDINATOR,
    portionings=(Portioning(("members",), ("members",)),),
)
