"""ShareGroupDescribe: share groups and their members (KIP-932).

The groups may be of different shards. Answered in `coordinator/groups/share/describe.py`.

Contract: `protocol/messages/share_group_describe.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.messages.share_group_describe import (
    DescribedShareGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ..coordinators.group_coordinator import GROUP_COORDINATORS
from ..coordinators.group_descriptions import (
    DESCRIBED_GROUPS,
    HAS_HIDDEN_TOPICS,
    NAMED_TOPICS,
    HiddenTopics,
    describe,
)
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import ONCE, Portioning
from ..services import Services
from ..share.share_preconditions import share_groups_precondition


def handle(services: Services, call: Call[ShareGroupDescribeRequest]) -> None:
    group_ids: list[str] = call.request.group_ids
    describe(
        services,
        call,
        group_ids,
        lambda ids: ShareGroupDescribeRequest(group_ids=ids),
        ShareGroupDescribeResponse,
        DescribedShareGroup,
        hidden=HiddenTopics(_topics_of, HAS_HIDDEN_TOPICS),
    )


def _topics_of(group: DescribedShareGroup) -> Iterable[str]:
    return (partitions.topic_name for member in group.members for partitions in member.assignment.topic_partitions)


ENDPOINT: ApiEndpoint[ShareGroupDescribeRequest, ShareGroupDescribeResponse] = ApiEndpoint(
    handle=handle,
    precondition=share_groups_precondition,
    authorization=(DESCRIBED_GROUPS, NAMED_TOPICS),
    place=GROUP_COORDINATORS,
    portionings=(Portioning(("group_ids",), ("groups",), ONCE, first=8),),
)
