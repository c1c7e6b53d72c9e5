"""DescribeGroups: classic groups and their members.

Answered in `coordinator/groups/admin.py`. The groups may be of different shards.

Contract: `protocol/messages/describe_groups.py`.
"""

from __future__ import annotations

from ...protocol.messages.describe_groups import DescribedClassicGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ..coordinators.group_coordinator import GROUP_COORDINATORS
from ..coordinators.group_descriptions import DESCRIBED_GROUPS, describe
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import ONCE, Portioning
from ..services import Services


def handle(services: Services, call: Call[DescribeGroupsRequest]) -> None:
    describe(
        services,
        call,
        call.request.groups,
        lambda ids: DescribeGroupsRequest(groups=ids),
        DescribeGroupsResponse,
        DescribedClassicGroup,
    )


ENDPOINT: ApiEndpoint[DescribeGroupsRequest, DescribeGroupsResponse] = ApiEndpoint(
    handle=handle,
    authorization=(DESCRIBED_GROUPS,),
    place=GROUP_COORDINATORS,
    portionings=(Portioning(("groups",), ("groups",), ONCE, first=8),),
)
