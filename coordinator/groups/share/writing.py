"""The records of share groups, written as Kafka 4.4 orders them."""

from __future__ import annotations

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
    ShareMemberTopicPartitions,
    ShareTargetTopicPartitions,
)
from ..assigned_records import AssignedRecords, write
from ..consumer.member import Partitions
from .group import ShareGroup
from .member import ShareMember
from .state_partitions import StatePartitions, as_record

if TYPE_CHECKING:
    from ..shard_state import ShardState

_STABLE = 0


def _target_value(partitions: Partitions) -> ShareGroupTargetAssignmentMemberValue:
    topics = [ShareTargetTopicPartitions(topic_id=t, partitions=sorted(partitions[t])) for t in sorted(partitions)]
    return ShareGroupTargetAssignmentMemberValue(topic_partitions=topics)


_RECORDS = AssignedRecords(
    member_key=ShareGroupMemberMetadataKey,
    current_key=ShareGroupCurrentMemberAssignmentKey,
    target_key=ShareGroupTargetAssignmentMemberKey,
    target_epoch_key=ShareGroupTargetAssignmentMetadataKey,
    target_epoch_value=ShareGroupTargetAssignmentMetadataValue,
    target_value=_target_value,
)


write_targets = _RECORDS.write_targets


write_target_epoch = _RECORDS.write_target_epoch


remove_member = _RECORDS.remove_member


def write_epoch(state: ShardState, group_id: str, epoch: int, metadata_hash: int) -> None:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    write(state, ShareGroupMetadataKey(group_id=group_id), value)


def write_member(state: ShardState, group_id: str, member_id: str, value: ShareGroupMemberMetadataValue) -> None:
    write(state, ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def write_current(state: ShardState, group_id: str, member: ShareMember) -> None:
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=_STABLE,
        assigned_partitions=[
            ShareMemberTopicPartitions(topic_id=t, partitions=sorted(indexes)) for t, indexes in member.assigned.items()
        ],
    )
    write(state, ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def write_states(state: ShardState, group_id: str, states: StatePartitions) -> None:
    write(state, ShareGroupStatePartitionMetadataKey(group_id=group_id), as_record(states))


def delete_group(state: ShardState, group: ShareGroup) -> None:
    assert not group.members, "only an empty group is deleted"
    group_id = group.group_id
    write(state, ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    write(state, ShareGroupStatePartitionMetadataKey(group_id=group_id), None)
    write(state, ShareGroupMetadataKey(group_id=group_id), None)
