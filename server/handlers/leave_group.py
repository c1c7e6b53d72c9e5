"""LeaveGroup, versions 0-5. See coordinator/groups/classic/join.py.

Up to version 2 one member leaves, and its error is the response's; the coordinator takes the later form only.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ...protocol.schema import Message
from ..api.authorization import group_error
from ..network.call import Call
from ..services import Services

#: The first version in which several members leave at once.
SEVERAL_MEMBERS_VERSION = 3


def handle(services: Services, call: Call) -> Message | None:
    if validation_error := group_error(services, call):
        return validation_error
    request: LeaveGroupRequest = call.request
    if call.version < SEVERAL_MEMBERS_VERSION:
        request.members = [MemberIdentity(member_id=request.member_id)]

    def reply(response: LeaveGroupResponse) -> None:
        if call.version < SEVERAL_MEMBERS_VERSION and response.error_code == ErrorCode.NONE:
            response.error_code = response.members[0].error_code
        call.reply(response)

    services.groups.submit(request.group_id, request, call.version, call, reply)
    return None
