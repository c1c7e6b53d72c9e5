"""ShareGroupDescribe 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....metadata.image import MetadataImage
from ....protocol.errors import ErrorCode
from ....protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from ....protocol.messages.share_group_describe import Member as DescribedMember
from ...common.result import GroupRequest
from ..base.membership import no_group
from .group import ShareGroup
from .member import Member

if TYPE_CHECKING:
    from ..base.state import ShardState

ASSIGNOR = "simple"


def describe(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, ShareGroupDescribeRequest)
    groups = [_described(state, group_id) for group_id in request.group_ids]
    state.reply(message, ShareGroupDescribeResponse(groups=groups))


def _described(state: ShardState, group_id: str) -> DescribedGroup:
    group = state.find(ShareGroup, group_id)
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    if group is None:
        error, words = no_group(state.groups, group_id, ShareGroup.kind, "Group")
        return DescribedGroup(group_id=group_id, error_code=error, error_message=words)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(state.image, member) for member in group.members.values()],
    )


def _member(image: MetadataImage, member: Member) -> DescribedMember:
    metadata = member.metadata
    return DescribedMember(
        member_id=member.member_id,
        rack_id=metadata.rack_id,
        member_epoch=member.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
                for topic_id, indexes in member.assigned.items()
                if (topic := image.topic_by_id(topic_id)) is not None
            ]
        ),
    )
