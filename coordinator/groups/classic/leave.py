"""LeaveGroup 0-5: several members at once, static members by instance id only (KIP-345), with reasons (KIP-800).

Up to version 2 the response has only one error, that of the one member. The handler converts it to and from the
newer form.
"""

from __future__ import annotations

import logging

from ....protocol.errors import ErrorCode
from ....protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ...result import GroupRequest
from ..shard_state import ShardState
from .group import ClassicGroup, ClassicGroupState
from .rebalance import advance, prepare
from .writing import write_departures

log = logging.getLogger(__name__)


def leave(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, LeaveGroupRequest)
    group = state.find(ClassicGroup, request.group_id)
    if group is None and state.respond_as_other_kind(message, request.group_id, now_ms):
        return
    errors = [_leave_one(group, leaver) for leaver in request.members]
    state.reply(
        message, LeaveGroupResponse(members=[_response(leaver, e) for leaver, e in zip(request.members, errors)])
    )
    if group is not None and ErrorCode.NONE in errors:
        _after_leave(state, group, now_ms)


def _leave_one(group: ClassicGroup | None, leaver: MemberIdentity) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    member_id, instance_id = leaver.member_id, leaver.group_instance_id
    if not member_id:
        # An administrator removes a static member by its instance id only.
        member_id = group.static_members.get(instance_id or "", "")
        if instance_id is None or not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id not in group.pending_joins:
        error = group.validate_member(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
    log.info("%s leaves group %s (%s)", member_id, group.group_id, leaver.reason or "no reason given")
    group.remove(member_id)
    return ErrorCode.NONE


def _after_leave(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
        prepare(state, group, now_ms, "members left")
    else:
        advance(state, group, now_ms)
    write_departures(state, group, now_ms)


def _response(leaver: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=error)
