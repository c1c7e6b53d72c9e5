"""DeleteGroups: groups without members (KIP-229).

Decided in `coordinator/groups/admin.py`. The groups may be of different shards.

A share group's states are deleted first (KIP-932): while that cannot be done the group stays.

Contract: `protocol/messages/delete_groups.py`.
"""

from __future__ import annotations

from functools import partial

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ..access.authorization.requirements import Each
from ..coordinators.group_coordinator import GROUP_COORDINATORS
from ..coordinators.scatter_and_gather import gather
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import ONCE, Portioning
from ..services import Services
from ..share.share_preconditions import PRELOADED as _PRELOADED

_GROUPS = Each(Operation.DELETE, ResourceType.GROUP)
#: Imported with this file, on a thread: the event loop imports none of it later.
PRELOADED = _PRELOADED


def handle(services: Services, call: Call[DeleteGroupsRequest]) -> None:
    request = call.request
    asked_once = list(dict.fromkeys(request.groups_names))
    denied = _GROUPS.denied(services.access.authorizer, call, asked_once)
    permitted = [group_id for group_id in asked_once if group_id not in denied]
    rejected = dict.fromkeys(denied, int(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    services.share.group_states().delete_groups(
        permitted, lambda errors: _delete(services, call, permitted, {**errors, **rejected})
    )


def _delete(
    services: Services, call: Call[DeleteGroupsRequest], group_ids: list[str], rejected: dict[str, int]
) -> None:
    groups = services.coordinators.groups

    def reply(responses: list[DeleteGroupsResponse]) -> None:
        results = [DeletableGroupResult(group_id=group_id, error_code=error) for group_id, error in rejected.items()]
        results += [result for response in responses for result in response.results]
        call.reply(DeleteGroupsResponse(results=results))

    left = [group_id for group_id in group_ids if group_id not in rejected]
    gather(
        [
            partial(groups.submit, ids[0], DeleteGroupsRequest(groups_names=ids), call.version, call)
            for ids in groups.by_partition(left)
        ],
        reply,
    )


ENDPOINT: ApiEndpoint[DeleteGroupsRequest, DeleteGroupsResponse] = ApiEndpoint(
    handle=handle,
    authorization=(_GROUPS,),
    place=GROUP_COORDINATORS,
    portionings=(Portioning(("groups_names",), ("results",), ONCE),),
)
