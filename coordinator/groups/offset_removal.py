"""Removal of committed offsets: after their retention (KIP-211), with their topic, or with their group.

In a group without members the retention begins when the group became empty. For topics that no member subscribes
to, and for simple consumers, it begins with the commit. A commit with its own retention time (OffsetCommit 2-4)
uses that. A group without members and without offsets is deleted.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.uuids import ZERO_UUID
from .group import Group
from .shard_state import ShardState


def expire_offsets(state: ShardState, now_ms: int) -> None:
    for group in list(state.groups.values()):
        kind = state.kind_of(group)
        if not kind.expires:
            continue
        if _expire_group(state, group, now_ms) and kind.validate_deletion(group) is ErrorCode.NONE:
            kind.delete(state, group)


def _expire_group(state: ShardState, group: Group, now_ms: int) -> bool:
    """Expires the group's offsets. Returns True if none is left."""
    nothing_left = not state.offsets.has_pending(group.group_id)
    is_expired = state.kind_of(group).offsets.is_expired
    for topic, partitions in list(state.offsets.of_group(group.group_id).items()):
        for index, committed in list(partitions.items()):
            unstable = state.offsets.is_pending(group.group_id, topic, index)
            if unstable or not is_expired(state, group, topic, committed, now_ms):
                nothing_left = False
            else:
                state.write_offset(group.group_id, topic, index, None)
                state.counters.offset_expirations += 1
    return nothing_left


def delete_offsets_of_topics(state: ShardState, deleted: dict[str, bytes]) -> None:
    """Deletes the offsets of deleted topics, name -> id. Offsets with another id belong to a new topic of that name."""
    for group_id, topics in list(state.offsets.groups()):
        for name in [name for name in topics if name in deleted]:
            for index, committed in list(topics[name].items()):
                if committed.topic_id in (ZERO_UUID, deleted[name]):
                    state.write_offset(group_id, name, index, None)


def delete_offsets_of_group(state: ShardState, group_id: str) -> None:
    committed = [(name, index) for name, indexes in state.offsets.of_group(group_id).items() for index in indexes]
    for topic, index in dict.fromkeys([*committed, *state.offsets.pending_of(group_id)]):
        state.write_offset(group_id, topic, index, None)
