"""DescribeGroups (key 15), versions 0-6: classic groups and their members.

Answered in `coordinator/groups/shard.py`. The groups may be of different shards.
"""

from __future__ import annotations

from ...protocol.messages.groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ..coordinators.group_coordinator import DESCRIBED_GROUPS, GROUP_COORDINATORS, describe
from ..network.api_endpoint import ONCE, ApiEndpoint, Portioning
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> None:
    describe(
        services,
        call,
        call.request.groups,
        lambda ids: DescribeGroupsRequest(groups=ids),
        DescribeGroupsResponse,
        DescribedGroup,
    )


ENDPOINT = ApiEndpoint(
    handle=handle,
    authorization=(DESCRIBED_GROUPS,),
    place=GROUP_COORDINATORS,
    portionings=(Portioning(("groups",), ("groups",), ONCE, first=8),),
)
