"""ListGroups, versions 0-5: the groups whose coordinator this broker is, by state and type (KIP-518, KIP-848)."""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.list_groups import ListGroupsResponse
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> None:
    def reply(answers: list[ListGroupsResponse]) -> None:
        errors = [a.error_code for a in answers if a.error_code not in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)]
        if errors:
            call.reply(ListGroupsResponse(error_code=errors[0]))
        else:
            call.reply(ListGroupsResponse(groups=[group for answer in answers for group in answer.groups]))

    services.groups.submit_to_all(call.request, call.version, call, reply)
