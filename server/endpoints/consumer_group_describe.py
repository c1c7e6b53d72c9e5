"""ConsumerGroupDescribe (key 69), versions 0-1: consumer groups and their members (KIP-848).

Groups may be of different shards. See coordinator/groups/consumer/kind.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ..coordinators.group_coordinator import (
    DESCRIBED_GROUPS,
    GROUP_COORDINATORS,
    HAS_HIDDEN_TOPICS,
    NAMED_TOPICS,
    HiddenTopics,
    consumer_groups_precondition,
    describe,
)
from ..network.api_endpoint import ONCE, ApiEndpoint, Portioning
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> None:
    group_ids: list[str] = call.request.group_ids
    describe(
        services,
        call,
        group_ids,
        lambda ids: ConsumerGroupDescribeRequest(group_ids=ids),
        ConsumerGroupDescribeResponse,
        DescribedGroup,
        hidden=HiddenTopics(_topics_of, HAS_HIDDEN_TOPICS),
    )


def _topics_of(group: DescribedGroup) -> Iterable[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (partitions.topic_name for partitions in assignment.topic_partitions)


ENDPOINT = ApiEndpoint(
    handle=handle,
    precondition=consumer_groups_precondition,
    authorization=(DESCRIBED_GROUPS, NAMED_TOPICS),
    place=GROUP_COORDINATORS,
    portionings=(Portioning(("group_ids",), ("groups",), ONCE, first=8),),
)
