"""ShareGroupDescribe (key 77), version 1.

The groups may be of different shards. See coordinator/groups/share/kind.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.messages.share_groups import DescribedGroup, ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ..coordinators.group_coordinator import (
    DESCRIBED_GROUPS,
    GROUP_COORDINATORS,
    HAS_HIDDEN_TOPICS,
    NAMED_TOPICS,
    HiddenTopics,
    describe,
)
from ..network.api_endpoint import ONCE, ApiEndpoint, Portioning
from ..network.call import Call
from ..services import Services
from ..share.share_groups import share_groups_precondition


def handle(services: Services, call: Call) -> None:
    group_ids: list[str] = call.request.group_ids
    describe(
        services,
        call,
        group_ids,
        lambda ids: ShareGroupDescribeRequest(group_ids=ids),
        ShareGroupDescribeResponse,
        DescribedGroup,
        hidden=HiddenTopics(_topics_of, HAS_HIDDEN_TOPICS),
    )


def _topics_of(group: DescribedGroup) -> Iterable[str]:
    return (partitions.topic_name for member in group.members for partitions in member.assignment.topic_partitions)


ENDPOINT = ApiEndpoint(
    handle=handle,
    precondition=share_groups_precondition,
    authorization=(DESCRIBED_GROUPS, NAMED_TOPICS),
    place=GROUP_COORDINATORS,
    portionings=(Portioning(("group_ids",), ("groups",), ONCE, first=8),),
)
