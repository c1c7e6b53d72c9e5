"""Heartbeat, versions 0-4: a member of a classic group lives, and learns whether the group rebalances."""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ....protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ...result import GroupRequest
from ..shard_state import ShardState
from .group import ClassicGroup, ClassicGroupState

#: The error code of a heartbeat from a member of the current generation. Other states have no members.
HEARTBEAT_RESPONSES = {
    ClassicGroupState.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    ClassicGroupState.COMPLETING_REBALANCE: ErrorCode.NONE,
    ClassicGroupState.STABLE: ErrorCode.NONE,
}


def heartbeat(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, HeartbeatRequest)
    group = state.find(ClassicGroup, request.group_id)
    if group is None and state.respond_as_other_kind(message, request.group_id, now_ms):
        return
    state.reply(message, HeartbeatResponse(error_code=_heartbeat(group, request, now_ms)))


def _heartbeat(group: ClassicGroup | None, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    group.touch(group.members[request.member_id], now_ms)
    return HEARTBEAT_RESPONSES[group.state]
