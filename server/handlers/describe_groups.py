"""DescribeGroups, versions 0-6. See coordinator/groups/shard.py. The groups may be of different shards."""

from __future__ import annotations

from ...protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ..api.group_descriptions import describe
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
