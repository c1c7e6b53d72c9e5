"""JoinGroup, versions 0-9: the answer waits until the group's next generation. See coordinator/groups/classic/join.py."""

from __future__ import annotations

from typing import Any

from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ..api.authorization import group_error
from ..network.call import Call
from ..services import Services

#: The first version whose answers may name no protocol.
NO_PROTOCOL_VERSION = 7


def handle(services: Services, call: Call) -> None:
    request: JoinGroupRequest = call.request

    def reply(response: JoinGroupResponse) -> None:
        if response.protocol_name is None and call.version < NO_PROTOCOL_VERSION:
            response.protocol_name = ""
        call.reply(response)

    validation_error: Any = group_error(services, call)
    if validation_error is not None:
        reply(validation_error)
        return
    services.groups.submit(request.group_id, request, call.version, call, reply)
