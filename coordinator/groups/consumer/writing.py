"""The records of consumer groups, written as Kafka 4.4 orders them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    TopicPartition,
)
from ....protocol.schema import Message
from ...common.result import Record
from .group import ConsumerGroup
from .member import JOIN_EPOCH, Member, Partitions, current_assignment

if TYPE_CHECKING:
    from ..base.state import ShardState


def _write(state: ShardState, key: Message, value: Message | None) -> None:
    state.write(Record(key, value, 0))


def write_epoch(state: ShardState, group_id: str, epoch: int, metadata_hash: int) -> None:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    _write(state, ConsumerGroupMetadataKey(group_id=group_id), value)


def write_member(
    state: ShardState, group_id: str, member_id: str, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    _write(state, ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def write_current(state: ShardState, group_id: str, member: Member) -> None:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    _write(state, key, current_assignment(member))


def write_target(state: ShardState, group_id: str, member_id: str, partitions: Partitions) -> None:
    topics = [TopicPartition(topic_id=t, partitions=sorted(partitions[t])) for t in sorted(partitions)]
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    _write(state, key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))


def write_targets(
    state: ShardState, group: ConsumerGroup, targets: Mapping[str, Partitions], epoch: int, now: int
) -> None:
    """Writes the targets that changed, then the target epoch."""
    for member_id, partitions in targets.items():
        if group.targets.get(member_id) != partitions:
            write_target(state, group.group_id, member_id, partitions)
    write_target_epoch(state, group.group_id, epoch, now)


def write_target_epoch(state: ShardState, group_id: str, epoch: int, now: int) -> None:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now)
    _write(state, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def delete_partition_metadata(state: ShardState, group_id: str) -> None:
    _write(state, ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def write_regex(
    state: ShardState, group_id: str, regex: str, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    _write(state, ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def replace_member(state: ShardState, group: ConsumerGroup, before: Member, member_id: str) -> Member:
    """Replaces a static member that returns, perhaps under another id. The new one takes over its state."""
    group_id, target = group.group_id, group.targets.get(before.member_id, {})
    after = replace(before, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    remove_members(state, group_id, [before.member_id])
    write_member(state, group_id, member_id, after.metadata)
    write_target(state, group_id, member_id, target)
    write_current(state, group_id, after)
    return group.members[member_id]


def remove_members(state: ShardState, group_id: str, member_ids: Iterable[str]) -> None:
    for member_id in member_ids:
        _write(state, ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
        _write(state, ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
        write_member(state, group_id, member_id, None)


def delete_group(state: ShardState, group: ConsumerGroup) -> None:
    """Deletes the group with its remaining members; if it has any, it continues as a group of another kind."""
    group_id = group.group_id
    members = list(group.members)
    for member_id in members:
        _write(state, ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    for member_id in members:
        _write(state, ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    _write(state, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    for member_id in members:
        write_member(state, group_id, member_id, None)
    for regex in list(group.regexes):
        write_regex(state, group_id, regex, None)
    delete_partition_metadata(state, group_id)
    _write(state, ConsumerGroupMetadataKey(group_id=group_id), None)
