"""ConsumerGroupDescribe (KIP-848), versions 0-1.

Groups may be of different shards. See coordinator/groups/consumer/kind.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.errors import ErrorCode
from ...protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ..api.consumer_protocol import has_consumer_groups
from ..api.group_descriptions import HAS_HIDDEN_TOPICS, HiddenTopics, describe
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> ConsumerGroupDescribeResponse | None:
    group_ids: list[str] = call.request.group_ids
    if not has_consumer_groups(services):
        rejected = [DescribedGroup(group_id=g, error_code=ErrorCode.UNSUPPORTED_VERSION) for g in group_ids]
        return ConsumerGroupDescribeResponse(groups=rejected)
    describe(
        services,
        call,
        group_ids,
        lambda ids: ConsumerGroupDescribeRequest(group_ids=ids),
        ConsumerGroupDescribeResponse,
        DescribedGroup,
        hidden=HiddenTopics(_topics_of, HAS_HIDDEN_TOPICS),
    )
    return None


def _topics_of(group: DescribedGroup) -> Iterable[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (partitions.topic_name for partitions in assignment.topic_partitions)
