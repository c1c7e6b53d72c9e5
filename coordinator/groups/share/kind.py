"""Share groups (KIP-932): any member may acquire any record, and acknowledges each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ....metadata.image import MetadataImage
from ....protocol.error_responses import error_response_to
from ....protocol.errors import ErrorCode
from ....protocol.internal.share_group_records import ShareGroupMetadataKey
from ....protocol.messages.consumer_groups import DescribedAssignment, DescribedTopicPartitions
from ....protocol.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
)
from ....protocol.messages.share_groups import Member as DescribedMember
from ....protocol.schema import Message
from ...result import GroupRequest
from ..assigned_group import described, replays, sessions
from ..state import ErrorResponse, Kind, OffsetRules
from . import heartbeat, offset_requests
from .group import RECORD_TYPES, Member, ShareGroup, delete_group, session_timeout_ms
from .heartbeat import expired, restore
from .offset_requests import (
    DeletionOfGroups,
    DeletionsOfStates,
    Done,
    Followed,
    InitializedPartitions,
    KnownPartitions,
    StatesDeleted,
    StatesInitialized,
    initialized,
    metadata_changed,
)

if TYPE_CHECKING:
    from ..state import ShardState


# One error for a whole request about share groups, where it is not the one of the schema.


def _followed(request: Message, version: int, error: ErrorCode) -> Message:
    return Followed(error_response_to(request, version, error), None)


def _delete_groups(request: DeletionOfGroups, version: int, error: ErrorCode) -> Message:
    return DeletionsOfStates({}, dict.fromkeys(request.group_ids, error))


def _known(request: InitializedPartitions, version: int, error: ErrorCode) -> Message:
    return KnownPartitions(error, {})


def _done(request: Message, version: int, error: ErrorCode) -> Message:
    return Done(error)


ERROR_RESPONSES: dict[type[Message], ErrorResponse] = {
    ShareGroupHeartbeatRequest: _followed,
    AlterShareGroupOffsetsRequest: _followed,
    DeleteShareGroupOffsetsRequest: _followed,
    DeletionOfGroups: _delete_groups,
    InitializedPartitions: _known,
    StatesInitialized: _done,
    StatesDeleted: _done,
}


# Offset rules of share groups: they commit no offsets, since the persister keeps their state.


def _no_offsets(*_: object) -> ErrorCode:
    return ErrorCode.GROUP_ID_NOT_FOUND


def _never_expired(*_: object) -> bool:
    return False


RULES = OffsetRules(
    validate_commit=_no_offsets,
    validate_transactional_commit=_no_offsets,
    validate_delete=_no_offsets,
    is_expired=_never_expired,
)


# ShareGroupDescribe 1.


ASSIGNOR = "simple"


def describe_groups(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, ShareGroupDescribeRequest)
    groups = [
        described(state, group_id, ShareGroup, DescribedGroup, partial(_own_fields, state.image))
        if group_id
        else DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
        for group_id in request.group_ids
    ]
    state.reply(message, ShareGroupDescribeResponse(groups=groups))


def _own_fields(image: MetadataImage, group: ShareGroup) -> dict[str, object]:
    return {"assignor_name": ASSIGNOR, "members": [_member(image, member) for member in group.members.values()]}


def _member(image: MetadataImage, member: Member) -> DescribedMember:
    metadata = member.metadata
    return DescribedMember(
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


KIND = Kind(
    name=ShareGroup.kind,
    operations={
        ShareGroupHeartbeatRequest: heartbeat.heartbeat,
        ShareGroupDescribeRequest: describe_groups,
        AlterShareGroupOffsetsRequest: offset_requests.alter_offsets,
        DeleteShareGroupOffsetsRequest: offset_requests.delete_offsets,
        StatesInitialized: initialized,
        StatesDeleted: offset_requests.deleted,
        DeletionOfGroups: offset_requests.delete_groups,
        InitializedPartitions: offset_requests.initialized_partitions,
    },
    replays=replays(ShareGroup, ShareGroupMetadataKey),
    record_types=RECORD_TYPES,
    error_responses=ERROR_RESPONSES,
    offsets=RULES,
    restore=restore,
    sessions=partial(sessions, timeout_ms=session_timeout_ms),
    expired=expired,
    delete=delete_group,
    validate_deletion=ShareGroup.validate_deletion,
    metadata_changed=metadata_changed,
    expires=False,
    replaceable_when_empty=False,
)
