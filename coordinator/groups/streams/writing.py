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
from ....protocol.schema import Message
from ...common.result import Record
from .group import StreamsGroup
from .member import Member, current_assignment
from .tasks import TaskId, Tasks, by_subtopology

if TYPE_CHECKING:
    from ..base.state import ShardState


def _write(state: ShardState, key: Message, value: Message | None) -> None:
    state.write(Record(key, value, 0))


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
    _write(state, StreamsGroupMetadataKey(group_id=group_id), value)


def write_topology(state: ShardState, group_id: str, value: StreamsGroupTopologyValue) -> None:
    _write(state, StreamsGroupTopologyKey(group_id=group_id), value)


def write_member(
    state: ShardState, group_id: str, member_id: str, value: StreamsGroupMemberMetadataValue | None
) -> None:
    _write(state, StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def write_current(state: ShardState, group_id: str, member: Member) -> None:
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    _write(state, key, current_assignment(member))


def write_target(state: ShardState, group_id: str, member_id: str, tasks: Tasks) -> None:
    key = StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_role(tasks.active), standby_tasks=_role(tasks.standby), warmup_tasks=_role(tasks.warmup)
    )
    _write(state, key, value)


def _role(tasks: Iterable[TaskId]) -> list[StreamsGroupTargetAssignmentMemberTaskIds]:
    return [
        StreamsGroupTargetAssignmentMemberTaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


def write_targets(state: ShardState, group: StreamsGroup, targets: Mapping[str, Tasks], epoch: int, now: int) -> None:
    """Writes the targets that changed, then the target epoch."""
    for member_id, tasks in targets.items():
        if group.targets.get(member_id) != tasks:
            write_target(state, group.group_id, member_id, tasks)
    write_target_epoch(state, group.group_id, epoch, now)


def write_target_epoch(state: ShardState, group_id: str, epoch: int, timestamp_ms: int) -> None:
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    _write(state, StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def remove_member(state: ShardState, group_id: str, member_id: str) -> None:
    _write(state, StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    _write(state, StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    write_member(state, group_id, member_id, None)


def replace_member(state: ShardState, group: StreamsGroup, before: Member, member_id: str) -> None:
    """Replaces a static member that returned under another id. The new one takes over its state."""
    target = group.target_of(before.member_id)
    remove_member(state, group.group_id, before.member_id)
    write_member(state, group.group_id, member_id, before.metadata)
    write_target(state, group.group_id, member_id, target)
    write_current(state, group.group_id, replace(before, member_id=member_id))


def delete_group(state: ShardState, group: StreamsGroup) -> None:
    group_id = group.group_id
    assert not group.members, "only an empty group is deleted"
    _write(state, StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    _write(state, StreamsGroupMetadataKey(group_id=group_id), None)
    _write(state, StreamsGroupTopologyKey(group_id=group_id), None)
