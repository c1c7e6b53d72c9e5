"""Classic groups: the leader among the members assigns, and all stop for it (KIP-62 and after)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.internal.classic_group_records import GroupMetadataKey, GroupMetadataValue
from ....protocol.messages.heartbeat import HeartbeatRequest
from ....protocol.messages.join_group import JoinGroupRequest
from ....protocol.messages.leave_group import LeaveGroupRequest
from ....protocol.messages.sync_group import SyncGroupRequest
from ...common.timers import Event
from ..base.kind import Kind
from . import commits, join, leave, rebalance, sync
from .error_responses import ERROR_RESPONSES
from .group import ClassicGroup
from .writing import delete_group, find_or_make

if TYPE_CHECKING:
    from ..base.state import ShardState


def _replay(state: ShardState, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    if value is not None:
        group = find_or_make(state, key.group)
        # A group of another kind whose members are left becomes a classic one all at once.
        before = state.last_removed if group.durable is None else None
        group.predecessor = before if before is not None and before.group_id == key.group else None
        group.durable = value
    elif state.find(ClassicGroup, key.group) is not None:
        state.remove(key.group)


def _restore(state: ShardState, group: ClassicGroup, now: int) -> None:
    group.restore(now)
    if group.predecessor is not None and group.members:
        rebalance.prepare(
            state, group, now, "the coordinator failed before the members could join it as a classic group"
        )
    elif len(group.members) > state.config.max_group_size:
        rebalance.prepare(state, group, now, "the loaded group has more members than group.max.size")


def _expired(state: ShardState, event: Event, now: int) -> None:
    group = state.find(ClassicGroup, event[1])
    assert group is not None, "a deleted group takes its timers along"
    if event[0] == "classic session":
        rebalance.session_expired(state, group, event[2], now)
    elif event[0] == "classic join":
        rebalance.join_timer_expired(state, group, now)
    else:
        rebalance.sync_timer_expired(state, group, now)


def _delete(state: ShardState, group: ClassicGroup) -> None:
    delete_group(state, group.group_id)


CLASSIC = Kind(
    name=ClassicGroup.kind,
    operations={
        JoinGroupRequest: join.join,
        SyncGroupRequest: sync.sync,
        HeartbeatRequest: sync.heartbeat,
        LeaveGroupRequest: leave.leave,
    },
    replays={GroupMetadataKey: _replay},
    record_types={2: (GroupMetadataKey, GroupMetadataValue)},
    error_responses=ERROR_RESPONSES,
    offsets=commits.RULES,
    restore=_restore,
    expired=_expired,
    delete=_delete,
    validate_deletion=commits.validate_deletion,
    joins=(JoinGroupRequest,),
)
