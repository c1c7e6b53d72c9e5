"""ConsumerGroupDescribe: consumer groups and their members (KIP-848).

Groups may be of different shards. Answered in `coordinator/groups/consumer/describe.py`.

Contract: `protocol/messages/consumer_group_describe.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from ..coordinators.group_coordinator import GROUP_COORDINATORS, consumer_groups_precondition
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


def handle(services: Services, call: Call[ConsumerGroupDescribeRequest]) -> None:
    group_ids: list[str] = call.request.group_ids
    describe(
        services,
        call,
        group_ids,
        lambda ids: ConsumerGroupDescribeRequest(group_ids=ids),
        ConsumerGroupDescribeResponse,
        DescribedConsumerGroup,
        hidden=HiddenTopics(_topics_of, HAS_HIDDEN_TOPICS),
    )


def _topics_of(group: DescribedConsumerGroup) -> Iterable[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (partitions.topic_name for partitions in assignment.topic_partitions)


ENDPOINT: ApiEndpoint[ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse] = ApiEndpoint(
    handle=handle,
    precondition=consumer_groups_precondition,
    authorization=(DESCRIBED_GROUPS, NAMED_TOPICS),
    place=GROUP_COORDINATORS,
    portionings=(Portioning(("group_ids",), ("groups",), ONCE, first=8),),
)
