"""Look-up of a classic group in its shard, which creates the group if there is none."""

from __future__ import annotations

from ..shard_state import ShardState
from .group import ClassicGroup


def find_or_make(state: ShardState, group_id: str) -> ClassicGroup:
    """The classic group; a new one in the place of what had its id."""
    group = state.find(ClassicGroup, group_id)
    if group is None:
        group = ClassicGroup(group_id, state.timers, state.replies)
        state.put(group)
    return group


def create_group(state: ShardState, group_id: str, now_ms: int) -> ClassicGroup:
    group = find_or_make(state, group_id)
    group.state_timestamp_ms = now_ms
    return group
