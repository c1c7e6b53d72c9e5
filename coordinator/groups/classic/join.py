"""JoinGroup, versions 0-9 (KIP-62, 345, 394, 559, 800, 814)."""

from __future__ import annotations

from dataclasses import replace

from ....protocol.behaviour_versions import JOIN_GROUP_WITH_MEMBER_ID
from ....protocol.errors import ErrorCode
from ....protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ....protocol.primitives import MAX_STRING_BYTES
from ...result import GroupRequest
from ...timers import Timer
from ..shard_state import ShardState
from .group import ClassicGroup, ClassicGroupState
from .lookup import create_group
from .member import ClassicMember
from .rebalance import advance, joined, members_for_leader, prepare, rebalance
from .rebalance_errors import join_error
from .writing import can_be_stored, write_empty_group, write_group

WITH_REBALANCE_TIMEOUT = JoinGroupRequest.versions_with("rebalance_timeout_ms")
#: The versions whose response can tell a leader to skip the assignment (KIP-814).
WITH_SKIP_ASSIGNMENT = JoinGroupResponse.versions_with("skip_assignment")


def join(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, JoinGroupRequest)
    if _is_too_large(state, request):
        state.reply(message, join_error(ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id))
        return
    group = state.find(ClassicGroup, request.group_id)
    if group is None and state.respond_as_other_kind(message, request.group_id, now_ms):
        return
    if group is None and not state.replace(request.group_id):
        state.reply(message, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
        return
    if group is not None:
        _join_group(state, group, message, request, now_ms)
    elif request.member_id:
        state.reply(message, join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
    else:
        group = create_group(state, request.group_id, now_ms)
        # The record of the new group comes before its other records, and stays whatever becomes of this request.
        write_empty_group(state, group)
        _join_group(state, group, message, request, now_ms)


def _is_too_large(state: ShardState, request: JoinGroupRequest) -> bool:
    """Metadata of a protocol that can never be stored. Kafka lets such a member in, and with it the SyncGroup of each member
    fails with UNKNOWN_SERVER_ERROR.
    """
    for protocol in request.protocols:
        if state.is_too_large(protocol.metadata):
            return True
        protocol.metadata = bytes(protocol.metadata)  # long bytes of a large request are views of it
    return False


def _join_group(
    state: ShardState, group: ClassicGroup, message: GroupRequest, request: JoinGroupRequest, now_ms: int
) -> None:
    member_id = request.member_id
    if not _has_room(state, group, member_id):
        group.remove(member_id)
        state.reply(message, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
    elif not group.supports(request.protocol_type, _protocols(request)):
        state.reply(message, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif member_id:
        _join_known(state, group, message, request, now_ms)
    elif request.group_instance_id is not None:
        _join_static(state, group, message, request, now_ms)
    else:
        _join_dynamic(state, group, message, request, now_ms)


def _has_room(state: ShardState, group: ClassicGroup, member_id: str) -> bool:
    """Returns whether the group has room for the member. While members join, those that have joined count: if the limit
    was lowered, the last ones are left out.
    """
    if group.state is ClassicGroupState.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        waits = member is not None and member.awaiting_join is not None
        return waits or group.awaiting_join_count < state.config.max_group_size
    return member is not None or len(group.members) < state.config.max_group_size


def _join_dynamic(
    state: ShardState, group: ClassicGroup, message: GroupRequest, request: JoinGroupRequest, now_ms: int
) -> None:
    member_id = _member_id(message.client_id, message.member_uuid)
    if message.version in JOIN_GROUP_WITH_MEMBER_ID:
        group.add_pending(member_id, now_ms + request.session_timeout_ms)
        state.reply(message, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    else:
        _add(state, group, member_id, message, request, now_ms)


def _join_static(
    state: ShardState, group: ClassicGroup, message: GroupRequest, request: JoinGroupRequest, now_ms: int
) -> None:
    instance_id = request.group_instance_id
    assert instance_id is not None
    member_id = _member_id(instance_id, message.member_uuid)
    if instance_id in group.static_members:
        _replace(state, group, member_id, message, request, now_ms)
    else:
        _add(state, group, member_id, message, request, now_ms)


def _join_known(
    state: ShardState, group: ClassicGroup, message: GroupRequest, request: JoinGroupRequest, now_ms: int
) -> None:
    member_id = request.member_id
    if member_id in group.pending_joins:
        if request.group_instance_id is not None:
            # Ids are only left pending for members that have no instance id; Kafka fails on this too.
            state.reply(message, join_error(ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            _add(state, group, member_id, message, request, now_ms)
        return
    error = group.validate_member(member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        state.reply(message, join_error(error, member_id))
        return
    member = group.members[member_id]
    if _changes_nothing(group, member, request):
        state.reply(message, joined(group, member))
        return
    _update(group, member, message, request)
    rebalance(state, group, now_ms, f"{member_id} rejoins ({_reason(request)})")


def _changes_nothing(group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest) -> bool:
    """A JoinGroup that only asks again for a response that was lost; the leader of a Stable group means a rebalance."""
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        return member.has_same_protocols(_protocols(request))
    if group.state is ClassicGroupState.STABLE:
        return group.leader_id != member.member_id and member.has_same_protocols(_protocols(request))
    return False


def _add(
    state: ShardState,
    group: ClassicGroup,
    member_id: str,
    message: GroupRequest,
    request: JoinGroupRequest,
    now_ms: int,
) -> None:
    member = ClassicMember(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=message.client_id,
        client_host=message.client_host,
        rebalance_timeout_ms=_rebalance_timeout_ms(message, request),
        session_timeout_ms=request.session_timeout_ms,
        protocols=_protocols(request),
        session=Timer(("classic session", group.group_id, member_id)),
        is_new=True,
        has_joined=True,
    )
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.previous_state is ClassicGroupState.EMPTY:
        group.new_member_added = True
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(member, message.token)
    group.set_timer(member.session, now_ms + state.config.new_member_join_timeout_ms)
    rebalance(state, group, now_ms, f"{member_id} joins ({_reason(request)})")


def _replace(
    state: ShardState,
    group: ClassicGroup,
    member_id: str,
    message: GroupRequest,
    request: JoinGroupRequest,
    now_ms: int,
) -> None:
    """A static member comes back: its old id is fenced, its place and its assignment are the new one's.

    If the group's record cannot hold its new metadata, the previous member stays, as in Kafka.
    """
    if not _can_be_replaced(state, group, member_id, message, request):
        state.reply(message, _unchanged(group, ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    old_leader_id = group.leader_id or ""
    member = group.replace_static(request.group_instance_id or "", member_id)
    group.touch(member, now_ms)
    _update(group, member, message, request)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        advance(state, group, now_ms)
    elif group.state is ClassicGroupState.STABLE and group.select_protocol() == group.protocol_name:
        write_group(state, group, {m.member_id: m.assignment for m in group.members.values()})
        group.respond_to_join(member, _kept_place(group, member, message.version, old_leader_id))
    else:
        # The leader may be assigning to the old id just now, or the protocol changes.
        prepare(
            state, group, now_ms, f"{member_id} replaces the previous member of its instance id ({_reason(request)})"
        )


def _unchanged(group: ClassicGroup, error: ErrorCode) -> JoinGroupResponse:
    """Returns the error response to a returning member, which has the group's generation in Kafka too."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
    )


def _can_be_replaced(
    state: ShardState, group: ClassicGroup, member_id: str, message: GroupRequest, request: JoinGroupRequest
) -> bool:
    """Returns whether the record that keeps the group Stable can be stored; other states write none now."""
    if group.state is not ClassicGroupState.STABLE:
        return True
    known_id = group.static_members[request.group_instance_id or ""]
    known = group.members[known_id]
    protocols = _protocols(request)
    after = replace(
        known,
        member_id=member_id,
        protocols=protocols,
        rebalance_timeout_ms=_rebalance_timeout_ms(message, request),
        session_timeout_ms=request.session_timeout_ms,
    )
    if group.select_protocol_after(known_id, protocols) != group.protocol_name:
        return True
    record = group.as_record({m.member_id: m.assignment for m in group.members.values()})
    members = [
        after.as_record(record.protocol or "", after.assignment) if stored.member_id == known_id else stored
        for stored in record.members
    ]
    leader = member_id if record.leader == known_id else record.leader
    return can_be_stored(state, group.group_id, replace(record, leader=leader, members=members))


def _kept_place(group: ClassicGroup, member: ClassicMember, version: int, old_leader_id: str) -> JoinGroupResponse:
    """Returns the response to a leader or member that rejoins with its instance id. A leader must not assign again.

    From version 9 the response sets `skip_assignment` (KIP-814), and lists the members, whose topics the leader watches.
    In older versions the leader is the old member id, so that the client does not take itself for the leader.
    """
    is_leader = group.leader_id == member.member_id
    can_skip = version in WITH_SKIP_ASSIGNMENT
    response = joined(group, member)
    response.leader = (group.leader_id or "") if can_skip else old_leader_id
    response.skip_assignment = is_leader and can_skip
    response.members = members_for_leader(group) if is_leader and can_skip else []
    return response


def _update(group: ClassicGroup, member: ClassicMember, message: GroupRequest, request: JoinGroupRequest) -> None:
    group.update(member, _protocols(request), _rebalance_timeout_ms(message, request), request.session_timeout_ms)
    group.await_join(member, message.token)


def _rebalance_timeout_ms(message: GroupRequest, request: JoinGroupRequest) -> int:
    """Version 0 has one timeout for both."""
    return request.rebalance_timeout_ms if message.version in WITH_REBALANCE_TIMEOUT else request.session_timeout_ms


def _protocols(request: JoinGroupRequest) -> dict[str, bytes]:
    return {protocol.name: protocol.metadata for protocol in request.protocols}


def _reason(request: JoinGroupRequest) -> str:
    return request.reason or "no reason given"


def _member_id(prefix: str | None, member_uuid: str) -> str:
    """Kafka's form. A prefix of nearly all bytes that a string may have is cut: the id must fit in one, too."""
    room = MAX_STRING_BYTES - 1 - len(member_uuid)
    data = str(prefix).encode()
    return f"{data[:room].decode(errors='ignore')}-{member_uuid}"
