"""LeaveGroup: members leave a classic group (KIP-345).

Decided in `coordinator/groups/classic/leave.py`.

In the form for one member, its error is the response's. The coordinator takes the form for several only.

Contract: `protocol/messages/leave_group.py`.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ..access.authorization.usual_requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import Portioning
from ..services import Services

#: The versions in which several members leave at once.
WITH_SEVERAL_MEMBERS = LeaveGroupRequest.versions_with("members")


def handle(services: Services, call: Call[LeaveGroupRequest]) -> None:
    request = call.request
    if call.version not in WITH_SEVERAL_MEMBERS:
        request.members = [MemberIdentity(member_id=request.member_id)]

    def reply(response: LeaveGroupResponse) -> None:
        if call.version not in WITH_SEVERAL_MEMBERS and response.error_code == ErrorCode.NONE:
            response.error_code = response.members[0].error_code
        call.reply(response)

    services.coordinators.groups.submit(request.group_id, request, call.version, call, reply)


ENDPOINT: ApiEndpoint[LeaveGroupRequest, LeaveGroupResponse] = ApiEndpoint(
    handle=handle,
    authorization=(on_group(),),
    place=GROUP_COORDINATOR,
    portionings=(Portioning(("members",), ("members",)),),
)
