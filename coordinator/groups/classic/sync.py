"""SyncGroup, versions 0-5.

The leader's SyncGroup carries everybody's assignment. They are recorded, and with that the group is Stable;
followers that asked before have waited. An assignment is never answered empty to a member that has one.
"""

from __future__ import annotations

import logging

from ....protocol.errors import ErrorCode
from ....protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ...result import GroupRequest
from ..shard_state import ShardState
from .group import ClassicGroup, ClassicGroupState
from .member import ClassicMember
from .rebalance import prepare
from .rebalance_errors import sync_error
from .writing import can_be_stored, write_group

log = logging.getLogger(__name__)


def sync(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, SyncGroupRequest)
    group = state.find(ClassicGroup, request.group_id)
    if group is None and state.respond_as_other_kind(message, request.group_id, now_ms):
        return
    error = _validate_sync(group, request)
    if error is not ErrorCode.NONE:
        state.reply(message, sync_error(error))
        return
    assert group is not None
    member = group.members[request.member_id]
    group.pending_syncs.discard(member.member_id)
    if not group.pending_syncs:
        group.sync_timer.cancel()
    if group.state is ClassicGroupState.STABLE:
        # The client counts its session from this response.
        group.touch(member, now_ms)
        state.reply(message, synced(group, member))
        return
    group.await_sync(member, message.token)
    if group.leader_id == member.member_id:
        _assign(state, group, request, now_ms)


def _validate_sync(group: ClassicGroup | None, request: SyncGroupRequest) -> ErrorCode:
    if group is None or group.state is ClassicGroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is ClassicGroupState.PREPARING_REBALANCE else ErrorCode.NONE


def _differs(asked: str | None, ours: str | None) -> bool:
    return asked is not None and ours is not None and asked != ours


def _assign(state: ShardState, group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> None:
    given = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    if not can_be_stored(state, group.group_id, group.as_record(assignments)):
        _cannot_be_stored(state, group, now_ms)
        return
    # Long bytes of a large request are views of it.
    assignments = {member_id: bytes(assignment) for member_id, assignment in assignments.items()}
    write_group(state, group, assignments)
    for member in group.members.values():
        member.assignment = assignments[member.member_id]
        if group.respond_to_sync(member, synced(group, member)):
            group.touch(member, now_ms)
    group.transition(ClassicGroupState.STABLE, now_ms)
    state.counters.classic_rebalances += 1


def _cannot_be_stored(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    log.error(
        "group %s of %d members does not fit in a record of %d bytes (max.message.bytes of __consumer_offsets)",
        group.group_id, len(group.members), state.config.max_record_bytes,
    )  # fmt: skip
    for member in group.members.values():
        member.assignment = b""
        if group.respond_to_sync(member, sync_error(ErrorCode.UNKNOWN_SERVER_ERROR)):
            group.touch(member, now_ms)
    prepare(state, group, now_ms, "its assignments cannot be stored")


def synced(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
