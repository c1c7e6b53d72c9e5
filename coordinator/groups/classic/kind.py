"""Classic groups: the leader among the members assigns, and all stop for it (KIP-62 and after)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....protocol.internal.consumer_offsets import GroupMetadataKey, GroupMetadataValue
from ....protocol.messages.heartbeat import HeartbeatRequest
from ....protocol.messages.join_group import JoinGroupRequest
from ....protocol.messages.leave_group import LeaveGroupRequest
from ....protocol.messages.sync_group import SyncGroupRequest
from ...timers import Event
from ..kind import Kind
from ..session import Session
from . import heartbeat, join, leave, sync
from .commits import RULES, validate_deletion
from .error_responses import ERROR_RESPONSES
from .group import ClassicGroup
from .lookup import find_or_make
from .rebalance import join_timer_expired, prepare, session_expired, sync_timer_expired
from .writing import delete_classic_group, departures_due

if TYPE_CHECKING:
    from ..shard_state import ShardState


def _replay(state: ShardState, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    """Raises ValueError for a group that has a member or an instance id twice, which no coordinator writes."""
    if value is not None:
        ids = [one.member_id for one in value.members]
        instances = [one.group_instance_id for one in value.members if one.group_instance_id is not None]
        if len(set(ids)) < len(ids) or len(set(instances)) < len(instances):
            raise ValueError(f"a member of group {key.group} is there twice")
        group = find_or_make(state, key.group)
        # A group of another kind whose members are left becomes a classic one all at once.
        before = state.last_removed if group.durable is None else None
        group.predecessor = before if before is not None and before.group_id == key.group else None
        group.durable = value
    elif state.find(ClassicGroup, key.group) is not None:
        state.remove(key.group)


def _restore(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    group.restore(now_ms)
    if group.predecessor is not None and group.members:
        prepare(state, group, now_ms, "the coordinator failed before the members could join it as a classic group")
    elif len(group.members) > state.config.max_group_size:
        prepare(state, group, now_ms, "the loaded group has more members than group.max.size")


def _sessions(state: ShardState, group: ClassicGroup) -> Iterator[Session]:
    """Yields the sessions of members. A member whose request waits is alive, or has a timer of another length."""
    for member in group.members.values():
        if member.awaiting_join is None and member.awaiting_sync is None and not member.is_new:
            yield Session(member.member_id, member.session, member.session_timeout_ms)


def _expired(state: ShardState, event: Event, now_ms: int) -> None:
    group = state.find(ClassicGroup, event[1])
    assert group is not None, "a deleted group takes its timers along"
    if event[0] == "classic session":
        session_expired(state, group, event[2], now_ms)
    elif event[0] == "classic join":
        join_timer_expired(state, group, now_ms)
    elif event[0] == "classic departures":
        departures_due(state, group)
    else:
        sync_timer_expired(state, group, now_ms)


def _delete(state: ShardState, group: ClassicGroup) -> None:
    delete_classic_group(state, group.group_id)


CLASSIC = Kind(
    name=ClassicGroup.kind,
    operations={
        JoinGroupRequest: join.join,
        SyncGroupRequest: sync.sync,
        HeartbeatRequest: heartbeat.heartbeat,
        LeaveGroupRequest: leave.leave,
    },
    replays={GroupMetadataKey: _replay},
    record_types={2: (GroupMetadataKey, GroupMetadataValue)},
    error_responses=ERROR_RESPONSES,
    offsets=RULES,
    restore=_restore,
    sessions=_sessions,
    expired=_expired,
    delete=_delete,
    validate_deletion=validate_deletion,
    joins=(JoinGroupRequest,),
)
