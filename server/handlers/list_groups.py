"""ListGroups, versions 0-5: the groups whose coordinator this broker is, by state and type (KIP-518, KIP-848)."""

from __future__ import annotations

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.list_groups import ListGroupsResponse
from ..api.authorization import denies, denies_on_cluster
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> None:
    sees_all = not denies_on_cluster(services, call, Operation.DESCRIBE, log_denied=False)

    def is_hidden(group_id: str) -> bool:
        return not sees_all and denies(
            services, call, Operation.DESCRIBE, ResourceType.GROUP, group_id, log_denied=False
        )

    def reply(answers: list[ListGroupsResponse]) -> None:
        errors = [a.error_code for a in answers if a.error_code not in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)]
        if errors:
            call.reply(ListGroupsResponse(error_code=errors[0]))
        else:
            groups = [group for answer in answers for group in answer.groups if not is_hidden(group.group_id)]
            call.reply(ListGroupsResponse(groups=groups))

    services.groups.submit_to_all(call.request, call.version, call, reply)
