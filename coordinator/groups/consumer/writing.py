"""The records of consumer groups, written as Kafka 4.4 orders them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....protocol.internal.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetTopicPartitions,
)
from ..assigned_records import AssignedRecords, write
from ..member_epochs import JOIN_EPOCH
from .group import ConsumerGroup
from .member import ConsumerMember, Partitions, current_assignment

if TYPE_CHECKING:
    from ..shard_state import ShardState


def _target_value(partitions: Partitions) -> ConsumerGroupTargetAssignmentMemberValue:
    topics = [TargetTopicPartitions(topic_id=t, partitions=sorted(partitions[t])) for t in sorted(partitions)]
    return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)


_RECORDS = AssignedRecords(
    member_key=ConsumerGroupMemberMetadataKey,
    current_key=ConsumerGroupCurrentMemberAssignmentKey,
    target_key=ConsumerGroupTargetAssignmentMemberKey,
    target_epoch_key=ConsumerGroupTargetAssignmentMetadataKey,
    target_epoch_value=ConsumerGroupTargetAssignmentMetadataValue,
    target_value=_target_value,
)


write_target = _RECORDS.write_target


write_targets = _RECORDS.write_targets


write_target_epoch = _RECORDS.write_target_epoch


remove_member = _RECORDS.remove_member


def write_epoch(state: ShardState, group_id: str, epoch: int, metadata_hash: int) -> None:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    write(state, ConsumerGroupMetadataKey(group_id=group_id), value)


def write_member(
    state: ShardState, group_id: str, member_id: str, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    write(state, ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def write_current(state: ShardState, group_id: str, member: ConsumerMember) -> None:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    write(state, key, current_assignment(member))


def delete_partition_metadata(state: ShardState, group_id: str) -> None:
    write(state, ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def write_regex(
    state: ShardState, group_id: str, regex: str, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    write(state, ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def replace_member(state: ShardState, group: ConsumerGroup, before: ConsumerMember, member_id: str) -> ConsumerMember:
    """Replaces a static member that returns, perhaps under another id. The new one takes over its state."""
    group_id, target = group.group_id, group.targets.get(before.member_id, {})
    after = replace(before, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    remove_member(state, group_id, before.member_id)
    write_member(state, group_id, member_id, after.metadata)
    write_target(state, group_id, member_id, target)
    write_current(state, group_id, after)
    return group.members[member_id]


def delete_group(state: ShardState, group: ConsumerGroup) -> None:
    """Deletes the group with its remaining members; if it has any, it continues as a group of another kind."""
    group_id = group.group_id
    members = list(group.members)
    for member_id in members:
        write(state, ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    for member_id in members:
        write(state, ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    write(state, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    for member_id in members:
        write_member(state, group_id, member_id, None)
    for regex in list(group.regexes):
        write_regex(state, group_id, regex, None)
    delete_partition_metadata(state, group_id)
    write(state, ConsumerGroupMetadataKey(group_id=group_id), None)
