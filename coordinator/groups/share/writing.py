"""The records of share groups, written as Kafka 4.4 orders them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ....protocol.internal.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from ....protocol.schema import Message
from ...common.result import Record
from .group import ShareGroup
from .member import Member, Partitions
from .state_partitions import StatePartitions, as_record

if TYPE_CHECKING:
    from ..base.state import ShardState

_STABLE = 0


def _write(state: ShardState, key: Message, value: Message | None) -> None:
    state.write(Record(key, value, 0))


def write_epoch(state: ShardState, group_id: str, epoch: int, metadata_hash: int) -> None:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    _write(state, ShareGroupMetadataKey(group_id=group_id), value)


def write_member(state: ShardState, group_id: str, member_id: str, value: ShareGroupMemberMetadataValue) -> None:
    _write(state, ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def write_current(state: ShardState, group_id: str, member: Member) -> None:
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=_STABLE,
        assigned_partitions=[
            TopicPartitions(topic_id=t, partitions=sorted(indexes)) for t, indexes in member.assigned.items()
        ],
    )
    _write(state, ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def write_targets(
    state: ShardState, group: ShareGroup, targets: Mapping[str, Partitions], epoch: int, now: int
) -> None:
    """Writes the targets that changed, then the target epoch."""
    group_id = group.group_id
    for member_id, partitions in targets.items():
        if group.targets.get(member_id) != partitions:
            topics = [TopicPartition(topic_id=t, partitions=sorted(partitions[t])) for t in sorted(partitions)]
            key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
            _write(state, key, ShareGroupTargetAssignmentMemberValue(topic_partitions=topics))
    write_target_epoch(state, group_id, epoch, now)


def write_target_epoch(state: ShardState, group_id: str, epoch: int, timestamp_ms: int) -> None:
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    _write(state, ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def write_states(state: ShardState, group_id: str, states: StatePartitions) -> None:
    _write(state, ShareGroupStatePartitionMetadataKey(group_id=group_id), as_record(states))


def remove_member(state: ShardState, group_id: str, member_id: str) -> None:
    _write(state, ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    _write(state, ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    _write(state, ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def delete_group(state: ShardState, group: ShareGroup) -> None:
    assert not group.members, "only an empty group is deleted"
    group_id = group.group_id
    _write(state, ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    _write(state, ShareGroupStatePartitionMetadataKey(group_id=group_id), None)
    _write(state, ShareGroupMetadataKey(group_id=group_id), None)
