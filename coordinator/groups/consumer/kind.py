"""Consumer groups (KIP-848): the coordinator assigns, each member reconciles at its own pace."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ....metadata.image import MetadataImage
from ....protocol.errors import ErrorCode
from ....protocol.internal.consumer_offsets import ConsumerGroupMetadataKey
from ....protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    DescribedAssignment,
    DescribedGroup,
    DescribedTopicPartitions,
)
from ....protocol.messages.consumer_groups import Member as DescribedMember
from ....protocol.messages.groups import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from ....protocol.messages.offsets import OffsetCommitRequest, TxnOffsetCommitRequest
from ...result import Event, GroupRequest
from ..assigned_group import described, replays
from ..state import Kind, OffsetRules, ShardState, is_expired, stale, validate_commit, validate_delete, validate_fetch
from . import heartbeat, migration
from . import migration as classic_members
from .assignment import restore, sessions
from .group import RECORD_TYPES, ConsumerGroup, Member, MemberState, delete_group

# Offset rules of consumer groups. The rules that all kinds share are in coordinator/groups/state.py.


def validate_transactional_commit(group: ConsumerGroup, request: TxnOffsetCommitRequest) -> ErrorCode:
    """Validates a transactional commit. A request without a member is fenced by the producer epoch only (KIP-447)."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH


def validate_partition(group: ConsumerGroup, request: OffsetCommitRequest, topic_id: bytes, index: int) -> ErrorCode:
    """Validates the epoch of a commit for one partition.

    A member with an older epoch may still commit a partition that it has owned since that epoch or before (KIP-1251).
    """
    member = group.members.get(request.member_id)
    epoch = request.generation_id_or_member_epoch
    if member is None or epoch == member.epoch:
        return ErrorCode.NONE
    for owned in (member.assigned, member.revoking):
        since = owned.get(topic_id, {}).get(index)
        if since is not None:
            return ErrorCode.NONE if epoch >= since else stale(member)
    return stale(member)


RULES = OffsetRules(
    validate_commit=validate_commit,
    validate_transactional_commit=validate_transactional_commit,
    validate_delete=validate_delete,
    is_expired=is_expired,
    validate_partition=validate_partition,
    validate_fetch=validate_fetch,
)


# ConsumerGroupDescribe 0-1.


CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe_groups(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, ConsumerGroupDescribeRequest)
    groups = [
        described(state, group_id, ConsumerGroup, DescribedGroup, partial(_own_fields, state))
        if group_id
        else DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
        for group_id in request.group_ids
    ]
    state.reply(message, ConsumerGroupDescribeResponse(groups=groups))


def _own_fields(state: ShardState, group: ConsumerGroup) -> dict[str, object]:
    return {
        "assignor_name": group.assignor(state.config.consumer_assignors),
        "members": [_member(state.image, group, member) for member in group.members.values()],
    }


def _member(image: MetadataImage, group: ConsumerGroup, member: Member) -> DescribedMember:
    metadata = member.metadata
    return DescribedMember(
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


def _held(member: Member) -> dict[bytes, list[int]]:
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


def _metadata_changed(state: ShardState, group: ConsumerGroup, topics: frozenset[str]) -> None:
    group.has_outdated_regexes = True
    if not topics.isdisjoint(group.subscribed_topics()):
        group.is_outdated = True


def _expired(state: ShardState, event: Event, now: int) -> None:
    """A member was silent for its session, or did not give back, join or sync in time."""
    group = state.find(ConsumerGroup, event[1])
    assert group is not None, "a deleted group takes its timers along"
    member = group.members[event[2]]
    if event[0] != "consumer revocation" or member.state is MemberState.UNREVOKED_PARTITIONS:
        migration.remove_or_downgrade(state, group, [member.member_id], now)


CONSUMER = Kind(
    name=ConsumerGroup.kind,
    operations={
        ConsumerGroupHeartbeatRequest: heartbeat.heartbeat,
        ConsumerGroupDescribeRequest: describe_groups,
    },
    replays=replays(ConsumerGroup, ConsumerGroupMetadataKey),
    record_types=RECORD_TYPES,
    error_responses={},
    offsets=RULES,
    restore=restore,
    sessions=sessions,
    expired=_expired,
    delete=delete_group,
    validate_deletion=ConsumerGroup.validate_deletion,
    metadata_changed=_metadata_changed,
    classic_requests={
        JoinGroupRequest: classic_members.join_consumer_group,
        SyncGroupRequest: classic_members.sync,
        HeartbeatRequest: classic_members.heartbeat,
        LeaveGroupRequest: classic_members.leave,
    },
    joins=(ConsumerGroupHeartbeatRequest,),
)
