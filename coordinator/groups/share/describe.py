"""ShareGroupDescribe 1."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ....metadata.image import MetadataImage
from ....protocol.errors import ErrorCode
from ....protocol.messages.described_assignments import DescribedAssignment, DescribedTopicPartitions
from ....protocol.messages.share_group_describe import (
    DescribedShareGroup,
    DescribedShareMember,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ...result import GroupRequest
from ..group_description import described
from .group import ShareGroup
from .member import ShareMember

if TYPE_CHECKING:
    from ..shard_state import ShardState

ASSIGNOR = "simple"


def describe_groups(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, ShareGroupDescribeRequest)
    groups = [
        described(state, group_id, ShareGroup, DescribedShareGroup, partial(_own_fields, state.image))
        if group_id
        else DescribedShareGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
        for group_id in request.group_ids
    ]
    state.reply(message, ShareGroupDescribeResponse(groups=groups))


def _own_fields(image: MetadataImage, group: ShareGroup) -> dict[str, object]:
    return {"assignor_name": ASSIGNOR, "members": [_member(image, member) for member in group.members.values()]}


def _member(image: MetadataImage, member: ShareMember) -> DescribedShareMember:
    metadata = member.metadata
    return DescribedShareMember(
        member_id=member.member_id,
        rack_id=metadata.rack_id,
        member_epoch=member.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        assignment=DescribedAssignment(
            topic_partitions=[
                DescribedTopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
                for topic_id, indexes in member.assigned.items()
                if (topic := image.topic_by_id(topic_id)) is not None
            ]
        ),
    )
