"""ConsumerGroupDescribe 0-1."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ....metadata.image import MetadataImage
from ....protocol.errors import ErrorCode
from ....protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
    DescribedConsumerMember,
)
from ....protocol.messages.described_assignments import DescribedAssignment, DescribedTopicPartitions
from ...result import GroupRequest
from ..group_description import described
from ..shard_state import ShardState
from .group import ConsumerGroup
from .member import ConsumerMember

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe_groups(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, ConsumerGroupDescribeRequest)
    groups = [
        described(state, group_id, ConsumerGroup, DescribedConsumerGroup, partial(_own_fields, state))
        if group_id
        else DescribedConsumerGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
        for group_id in request.group_ids
    ]
    state.reply(message, ConsumerGroupDescribeResponse(groups=groups))


def _own_fields(state: ShardState, group: ConsumerGroup) -> dict[str, object]:
    return {
        "assignor_name": group.assignor(state.config.consumer_assignors),
        "members": [_member(state.image, group, member) for member in group.members.values()],
    }


def _member(image: MetadataImage, group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumerMember:
    metadata = member.metadata
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=member.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        subscribed_topic_regex=metadata.subscribed_topic_regex or "",
        assignment=_assignment(image, _held(member)),
        target_assignment=_assignment(
            image, {t: sorted(p) for t, p in group.targets.get(member.member_id, {}).items()}
        ),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _held(member: ConsumerMember) -> dict[bytes, list[int]]:
    held: dict[bytes, list[int]] = {}
    for topic_id, index in member.held():
        held.setdefault(topic_id, []).append(index)
    return held


def _assignment(image: MetadataImage, partitions: Mapping[bytes, list[int]]) -> DescribedAssignment:
    """Returns the assignment with topic names, without deleted topics."""
    topics = [(topic, indexes) for t, indexes in partitions.items() if (topic := image.topic_by_id(t)) is not None]
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopicPartitions(topic_id=topic.id, topic_name=topic.name, partitions=sorted(indexes))
            for topic, indexes in topics
            if indexes
        ]
    )
