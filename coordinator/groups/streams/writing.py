"""The records of streams groups, written as Kafka 4.4 orders them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ....protocol.internal.streams_group_records import (
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberTaskIds,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from ..assigned_records import AssignedRecords, write
from .group import StreamsGroup
from .member import StreamsMember, current_assignment
from .tasks import TaskId, Tasks, by_subtopology

if TYPE_CHECKING:
    from ..shard_state import ShardState


def _target_value(tasks: Tasks) -> StreamsGroupTargetAssignmentMemberValue:
    return StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_role(tasks.active), standby_tasks=_role(tasks.standby), warmup_tasks=_role(tasks.warmup)
    )


def _role(tasks: Iterable[TaskId]) -> list[StreamsGroupTargetAssignmentMemberTaskIds]:
    return [
        StreamsGroupTargetAssignmentMemberTaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


_RECORDS = AssignedRecords(
    member_key=StreamsGroupMemberMetadataKey,
    current_key=StreamsGroupCurrentMemberAssignmentKey,
    target_key=StreamsGroupTargetAssignmentMemberKey,
    target_epoch_key=StreamsGroupTargetAssignmentMetadataKey,
    target_epoch_value=StreamsGroupTargetAssignmentMetadataValue,
    target_value=_target_value,
)


write_target = _RECORDS.write_target


write_targets = _RECORDS.write_targets


write_target_epoch = _RECORDS.write_target_epoch


remove_member = _RECORDS.remove_member


def write_metadata(
    state: ShardState,
    group: StreamsGroup,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
) -> None:
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[LastAssignmentConfig(key=k, value=v) for k, v in sorted(assignment_configs.items())],
        stored_description_topology_epoch=group.metadata.stored_description_topology_epoch,
        failed_description_topology_epoch=group.metadata.failed_description_topology_epoch,
    )
    write_group_metadata(state, group.group_id, value)


def write_group_metadata(state: ShardState, group_id: str, value: StreamsGroupMetadataValue) -> None:
    write(state, StreamsGroupMetadataKey(group_id=group_id), value)


def write_topology(state: ShardState, group_id: str, value: StreamsGroupTopologyValue) -> None:
    write(state, StreamsGroupTopologyKey(group_id=group_id), value)


def write_member(
    state: ShardState, group_id: str, member_id: str, value: StreamsGroupMemberMetadataValue | None
) -> None:
    write(state, StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def write_current(state: ShardState, group_id: str, member: StreamsMember) -> None:
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    write(state, key, current_assignment(member))


def replace_member(state: ShardState, group: StreamsGroup, before: StreamsMember, member_id: str) -> None:
    """Replaces a static member that returned under another id. The new one takes over its state."""
    target = group.target_of(before.member_id)
    remove_member(state, group.group_id, before.member_id)
    write_member(state, group.group_id, member_id, before.metadata)
    write_target(state, group.group_id, member_id, target)
    write_current(state, group.group_id, replace(before, member_id=member_id))


def delete_group(state: ShardState, group: StreamsGroup) -> None:
    group_id = group.group_id
    assert not group.members, "only an empty group is deleted"
    write(state, StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    write(state, StreamsGroupMetadataKey(group_id=group_id), None)
    write(state, StreamsGroupTopologyKey(group_id=group_id), None)
