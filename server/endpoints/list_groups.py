"""ListGroups (key 16), versions 0-5: the groups whose coordinator this broker is, by state and type (KIP-518, KIP-848)."""

from __future__ import annotations

from ...metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.groups import ListGroupsResponse
from ..access.authorization.requirements import Each
from ..coordinators.group_coordinator import GROUP_COORDINATORS
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..services import Services

_CLUSTER = Each(Operation.DESCRIBE, ResourceType.CLUSTER)
_GROUPS = Each(Operation.DESCRIBE, ResourceType.GROUP)


def handle(services: Services, call: Call) -> None:
    sees_all = not _CLUSTER.denies(services.access.authorizer, call, CLUSTER_NAME, log_denied=False)

    def is_hidden(group_id: str) -> bool:
        return not sees_all and _GROUPS.denies(services.access.authorizer, call, group_id, log_denied=False)

    def reply(responses: list[ListGroupsResponse]) -> None:
        errors = [a.error_code for a in responses if a.error_code not in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)]
        if errors:
            call.reply(ListGroupsResponse(error_code=errors[0]))
        else:
            groups = [group for response in responses for group in response.groups if not is_hidden(group.group_id)]
            call.reply(ListGroupsResponse(groups=groups))

    services.coordinators.groups.submit_to_all(call.request, call.version, call, reply)


ENDPOINT = ApiEndpoint(handle=handle, authorization=(_CLUSTER, _GROUPS), place=GROUP_COORDINATORS)
