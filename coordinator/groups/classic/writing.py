"""Classic groups in a shard: found or made, and their records written."""

from __future__ import annotations

from ....protocol.internal.classic_group_records import GroupMetadataValue
from ..base.group_records import group_record
from ..base.state import ShardState
from .group import ClassicGroup


def find_or_make(state: ShardState, group_id: str) -> ClassicGroup:
    """The classic group; a new one in the place of what had its id."""
    group = state.find(ClassicGroup, group_id)
    if group is None:
        group = ClassicGroup(group_id, state.timers, state.replies)
        state.put(group)
    return group


def create_group(state: ShardState, group_id: str, now: int) -> ClassicGroup:
    group = find_or_make(state, group_id)
    group.state_timestamp_ms = now
    return group


def write_group(state: ShardState, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    state.write(group_record(group.group_id, group.as_record(assignments)))


def write_empty_group(state: ShardState, group: ClassicGroup) -> None:
    """The record of a group of which only the id is known."""
    empty = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=group.state_timestamp_ms)
    state.write(group_record(group.group_id, empty))


def delete_group(state: ShardState, group_id: str) -> None:
    state.write(group_record(group_id, None))
