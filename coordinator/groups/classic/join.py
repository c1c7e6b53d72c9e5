"""The requests of members of classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and the rebalance."""

from __future__ import annotations

import logging

from ....protocol.errors import ErrorCode
from ....protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ....protocol.primitives import MAX_STRING_BYTES
from ...result import GroupRequest, Timer
from ..state import ShardState, encoded_size
from .group import (
    ClassicGroup,
    Member,
    State,
    create_group,
    join_error,
    sync_error,
    write_departures,
    write_empty_group,
    write_group,
)

# JoinGroup, versions 0-9 (KIP-62, 345, 394, 559, 800, 814).
#
# A member without an id gets one: from version 4 in a response of its own (MEMBER_ID_REQUIRED), so that a client whose
# response is lost does not leave a ghost behind. A static member (group.instance.id) that comes without an id takes the
# place of its predecessor, in a Stable group without a rebalance when the protocol stays the same.


# The rebalance of a classic group to its next generation: all members join again, the leader assigns.
#
# prepare -> (all have joined, or the rebalance timeout) -> complete_join -> (the leader's SyncGroup: `sync`) -> Stable
#
# The first rebalance of a group that was empty waits `group.initial.rebalance.delay.ms` for more members, and as long
# again while new ones come, but not longer than their rebalance timeout.


log = logging.getLogger(__name__)

#: The least time between two looks at whether static members come back; clients choose the rebalance timeout, even 0.
LEAST_RETRY_MS = 100


def rebalance(state: ShardState, group: ClassicGroup, now: int, reason: str) -> None:
    """Starts a rebalance, or continues the current one, after a member joined, left or changed."""
    if group.state is State.PREPARING_REBALANCE:
        go_on(state, group, now)
    else:
        prepare(state, group, now, reason)


def prepare(state: ShardState, group: ClassicGroup, now: int, reason: str) -> None:
    if group.state is State.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
            if group.respond_to_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS)):
                group.touch(member, now)
    group.pending_syncs.clear()
    group.sync_timer.cancel()
    is_initial = group.state is State.EMPTY
    group.transition(State.PREPARING_REBALANCE, now)
    log.info("group %s rebalances after generation %d: %s", group.group_id, group.generation_id, reason)
    if is_initial:
        _wait_for_more(state, group, now)
    elif group.has_all_joined():
        complete_join(state, group, now)
    else:
        group.set_timer(group.join_timer, now + group.rebalance_timeout_ms())


def go_on(state: ShardState, group: ClassicGroup, now: int) -> None:
    """The join phase ends when all have joined; the first one of a group only by its timer."""
    if group.state is State.PREPARING_REBALANCE and group.previous_state is not State.EMPTY and group.has_all_joined():
        complete_join(state, group, now)


def join_timer_expired(state: ShardState, group: ClassicGroup, now: int) -> None:
    if group.state is not State.PREPARING_REBALANCE:
        return
    if group.previous_state is State.EMPTY and group.new_member_added and group.initial_remaining_ms:
        _wait_again(state, group, now)
    else:
        complete_join(state, group, now)


def sync_timer_expired(state: ShardState, group: ClassicGroup, now: int) -> None:
    """Members that joined and then never asked for their assignment keep the rest from it: out they go."""
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.pending_syncs:
        return
    silent = sorted(group.pending_syncs)
    for member_id in silent:
        group.remove(member_id)
    prepare(state, group, now, f"{', '.join(silent)} sent no SyncGroup in time")
    write_departures(state, group, now)


def session_expired(state: ShardState, group: ClassicGroup, member_id: str, now: int) -> None:
    member = group.members.get(member_id)
    if group.forget_pending(member_id):
        _after_removal(state, group, now)
    elif member is not None and not member.keeps_its_session():
        group.remove(member_id)
        if group.state is State.PREPARING_REBALANCE:
            _after_removal(state, group, now)
        else:
            prepare(state, group, now, f"{member_id} sent no heartbeat within its session timeout")
        write_departures(state, group, now)


def complete_join(state: ShardState, group: ClassicGroup, now: int) -> None:
    """Ends the join phase. Members that have not joined are removed, except static members (KIP-345)."""
    group.join_timer.cancel()
    late = [m.member_id for m in group.members.values() if m.awaiting_join is None and m.group_instance_id is None]
    for member_id in late:
        group.remove(member_id)
    if not group.elect_joined_leader() and group.members:
        # No member rejoined, and only static members are left: wait until they rejoin or their sessions end.
        group.set_timer(group.join_timer, now + max(group.rebalance_timeout_ms(), LEAST_RETRY_MS))
        return
    group.new_member_added = False
    group.next_generation(now)
    log.info("group %s has generation %d of %d members", group.group_id, group.generation_id, len(group.members))
    if group.state is State.EMPTY:
        write_group(state, group, {})
        return
    for member in group.members.values():
        if member.awaiting_join is not None:
            group.respond_to_join(member, joined(group, member))
        group.touch(member, now)
        member.is_new = False
        group.pending_syncs.add(member.member_id)
    group.set_timer(group.sync_timer, now + group.rebalance_timeout_ms())
    write_departures(state, group, now)


def joined(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The member's place in the current generation; the leader gets all members, since it assigns to them."""
    is_leader = group.leader_id == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members_for_leader(group) if is_leader else [],
    )


def members_for_leader(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    assert group.protocol_name is not None
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.protocols[group.protocol_name],
        )
        for member in group.members.values()
    ]


def _after_removal(state: ShardState, group: ClassicGroup, now: int) -> None:
    """Unlike `go_on`, a removal ends the first join phase too when no member is missing, as in Kafka."""
    if group.state is State.PREPARING_REBALANCE and group.has_all_joined():
        complete_join(state, group, now)


def _wait_for_more(state: ShardState, group: ClassicGroup, now: int) -> None:
    group.new_member_added = False
    group.initial_delay_ms = state.config.initial_rebalance_delay_ms
    group.initial_remaining_ms = max(group.rebalance_timeout_ms() - group.initial_delay_ms, 0)
    group.set_timer(group.join_timer, now + group.initial_delay_ms)


def _wait_again(state: ShardState, group: ClassicGroup, now: int) -> None:
    group.new_member_added = False
    remaining_ms = group.initial_remaining_ms
    group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
    group.initial_delay_ms = min(state.config.initial_rebalance_delay_ms, remaining_ms)
    group.set_timer(group.join_timer, now + group.initial_delay_ms)


#: The first version whose clients are given their id before they join.
MEMBER_ID_REQUIRED_VERSION = 4
#: The first version whose response can tell a leader to skip the assignment (KIP-814).
SKIP_ASSIGNMENT_VERSION = 9


def join(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, JoinGroupRequest)
    if _is_too_large(state, request):
        state.reply(message, join_error(ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id))
        return
    group = state.find(ClassicGroup, request.group_id)
    if group is None and state.respond_as_other_kind(message, request.group_id, now):
        return
    if group is None and not state.replace(request.group_id):
        state.reply(message, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
        return
    if group is not None:
        _join_group(state, group, message, request, now)
    elif request.member_id:
        state.reply(message, join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
    else:
        group = create_group(state, request.group_id, now)
        # The record of the new group comes before its other records, and stays whatever becomes of this request.
        write_empty_group(state, group)
        _join_group(state, group, message, request, now)


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
    state: ShardState, group: ClassicGroup, message: GroupRequest, request: JoinGroupRequest, now: int
) -> None:
    member_id = request.member_id
    if not _has_room(state, group, member_id):
        group.remove(member_id)
        state.reply(message, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
    elif not group.supports(request.protocol_type, _protocols(request)):
        state.reply(message, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif member_id:
        _join_known(state, group, message, request, now)
    elif request.group_instance_id is not None:
        _join_static(state, group, message, request, now)
    else:
        _join_dynamic(state, group, message, request, now)


def _has_room(state: ShardState, group: ClassicGroup, member_id: str) -> bool:
    """Returns whether the group has room for the member. While members join, those that have joined count: if the limit
    was lowered, the last ones are left out.
    """
    if group.state is State.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is State.PREPARING_REBALANCE:
        waits = member is not None and member.awaiting_join is not None
        return waits or group.awaiting_join_count < state.config.max_group_size
    return member is not None or len(group.members) < state.config.max_group_size


def _join_dynamic(
    state: ShardState, group: ClassicGroup, message: GroupRequest, request: JoinGroupRequest, now: int
) -> None:
    member_id = _member_id(message.client_id, message.member_uuid)
    if message.version >= MEMBER_ID_REQUIRED_VERSION:
        group.add_pending(member_id, now + request.session_timeout_ms)
        state.reply(message, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    else:
        _add(state, group, member_id, message, request, now)


def _join_static(
    state: ShardState, group: ClassicGroup, message: GroupRequest, request: JoinGroupRequest, now: int
) -> None:
    instance_id = request.group_instance_id
    assert instance_id is not None
    member_id = _member_id(instance_id, message.member_uuid)
    if instance_id in group.static_members:
        _replace(state, group, member_id, message, request, now)
    else:
        _add(state, group, member_id, message, request, now)


def _join_known(
    state: ShardState, group: ClassicGroup, message: GroupRequest, request: JoinGroupRequest, now: int
) -> None:
    member_id = request.member_id
    if member_id in group.pending_joins:
        if request.group_instance_id is not None:
            # Ids are only left pending for members that have no instance id; Kafka fails on this too.
            state.reply(message, join_error(ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            _add(state, group, member_id, message, request, now)
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
    rebalance(state, group, now, f"{member_id} rejoins ({_reason(request)})")


def _changes_nothing(group: ClassicGroup, member: Member, request: JoinGroupRequest) -> bool:
    """A JoinGroup that only asks again for a response that was lost; the leader of a Stable group means a rebalance."""
    if group.state is State.COMPLETING_REBALANCE:
        return member.speaks_the_same(_protocols(request))
    if group.state is State.STABLE:
        return group.leader_id != member.member_id and member.speaks_the_same(_protocols(request))
    return False


def _add(
    state: ShardState, group: ClassicGroup, member_id: str, message: GroupRequest, request: JoinGroupRequest, now: int
) -> None:
    member = Member(
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
    if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
        group.new_member_added = True
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(member, message.token)
    group.set_timer(member.session, now + state.config.new_member_join_timeout_ms)
    rebalance(state, group, now, f"{member_id} joins ({_reason(request)})")


def _replace(
    state: ShardState, group: ClassicGroup, member_id: str, message: GroupRequest, request: JoinGroupRequest, now: int
) -> None:
    """A static member comes back: its old id is fenced, its place and its assignment are the new one's."""
    old_leader_id = group.leader_id or ""
    member = group.replace_static(request.group_instance_id or "", member_id)
    group.touch(member, now)
    _update(group, member, message, request)
    if group.state is State.PREPARING_REBALANCE:
        go_on(state, group, now)
    elif group.state is State.STABLE and group.select_protocol() == group.protocol_name:
        write_group(state, group, {m.member_id: m.assignment for m in group.members.values()})
        group.respond_to_join(member, _kept_place(group, member, message.version, old_leader_id))
    else:
        # The leader may be assigning to the old id just now, or the protocol changes.
        prepare(state, group, now, f"{member_id} replaces the previous member of its instance id ({_reason(request)})")


def _kept_place(group: ClassicGroup, member: Member, version: int, old_leader_id: str) -> JoinGroupResponse:
    """Returns the response to a leader or member that rejoins with its instance id. A leader must not assign again.

    From version 9 the response sets `skip_assignment` (KIP-814), and lists the members, whose topics the leader watches.
    In older versions the leader is the old member id, so that the client does not take itself for the leader.
    """
    is_leader = group.leader_id == member.member_id
    can_skip = version >= SKIP_ASSIGNMENT_VERSION
    response = joined(group, member)
    response.leader = (group.leader_id or "") if can_skip else old_leader_id
    response.skip_assignment = is_leader and can_skip
    response.members = members_for_leader(group) if is_leader and can_skip else []
    return response


def _update(group: ClassicGroup, member: Member, message: GroupRequest, request: JoinGroupRequest) -> None:
    group.update(member, _protocols(request), _rebalance_timeout_ms(message, request), request.session_timeout_ms)
    group.await_join(member, message.token)


def _rebalance_timeout_ms(message: GroupRequest, request: JoinGroupRequest) -> int:
    """Version 0 has one timeout for both."""
    return request.session_timeout_ms if message.version == 0 else request.rebalance_timeout_ms


def _protocols(request: JoinGroupRequest) -> dict[str, bytes]:
    return {protocol.name: protocol.metadata for protocol in request.protocols}


def _reason(request: JoinGroupRequest) -> str:
    return request.reason or "no reason given"


def _member_id(prefix: str | None, member_uuid: str) -> str:
    """Kafka's form. A prefix of nearly all bytes that a string may have is cut: the id must fit in one, too."""
    room = MAX_STRING_BYTES - 1 - len(member_uuid)
    data = str(prefix).encode()
    return f"{data[:room].decode(errors='ignore')}-{member_uuid}"


# SyncGroup, versions 0-5, and Heartbeat, versions 0-4.
#
# The leader's SyncGroup carries everybody's assignment. They are recorded, and with that the group is Stable;
# followers that asked before have waited. An assignment is never answered empty to a member that has one.


#: The error code of a heartbeat from a member of the current generation. Other states have no members.
HEARTBEAT_RESPONSES = {
    State.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    State.COMPLETING_REBALANCE: ErrorCode.NONE,
    State.STABLE: ErrorCode.NONE,
}


def heartbeat(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, HeartbeatRequest)
    group = state.find(ClassicGroup, request.group_id)
    if group is None and state.respond_as_other_kind(message, request.group_id, now):
        return
    state.reply(message, HeartbeatResponse(error_code=_heartbeat(group, request, now)))


def _heartbeat(group: ClassicGroup | None, request: HeartbeatRequest, now: int) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    group.touch(group.members[request.member_id], now)
    return HEARTBEAT_RESPONSES[group.state]


def sync(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, SyncGroupRequest)
    group = state.find(ClassicGroup, request.group_id)
    if group is None and state.respond_as_other_kind(message, request.group_id, now):
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
    if group.state is State.STABLE:
        # The client counts its session from this response.
        group.touch(member, now)
        state.reply(message, synced(group, member))
        return
    group.await_sync(member, message.token)
    if group.leader_id == member.member_id:
        _assign(state, group, request, now)


def _validate_sync(group: ClassicGroup | None, request: SyncGroupRequest) -> ErrorCode:
    if group is None or group.state is State.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE


def _differs(asked: str | None, ours: str | None) -> bool:
    return asked is not None and ours is not None and asked != ours


def _assign(state: ShardState, group: ClassicGroup, request: SyncGroupRequest, now: int) -> None:
    given = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    if not _can_be_stored(state, group, assignments):
        _cannot_be_stored(state, group, now)
        return
    # Long bytes of a large request are views of it.
    assignments = {member_id: bytes(assignment) for member_id, assignment in assignments.items()}
    write_group(state, group, assignments)
    for member in group.members.values():
        member.assignment = assignments[member.member_id]
        if group.respond_to_sync(member, synced(group, member)):
            group.touch(member, now)
    group.transition(State.STABLE, now)
    state.counters.classic_rebalances += 1


def _can_be_stored(state: ShardState, group: ClassicGroup, assignments: dict[str, bytes]) -> bool:
    record, limit = group.as_record(assignments), state.config.max_record_bytes
    # Adding up comes first: to encode 90 MB holds up others for 50 ms.
    if sum(len(member.subscription) + len(member.assignment) for member in record.members) > limit:
        return False
    return encoded_size(record) <= limit


def _cannot_be_stored(state: ShardState, group: ClassicGroup, now: int) -> None:
    log.error(
        "group %s of %d members does not fit in a record of %d bytes (max.message.bytes of __consumer_offsets)",
        group.group_id, len(group.members), state.config.max_record_bytes,
    )  # fmt: skip
    for member in group.members.values():
        member.assignment = b""
        if group.respond_to_sync(member, sync_error(ErrorCode.UNKNOWN_SERVER_ERROR)):
            group.touch(member, now)
    prepare(state, group, now, "its assignments cannot be stored")


def synced(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


# LeaveGroup 0-5: several members at once, static members by instance id only (KIP-345), with reasons (KIP-800).
#
# Up to version 2 the response has only one error, that of the one member. The handler converts it to and from the
# newer form.


def leave(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, LeaveGroupRequest)
    group = state.find(ClassicGroup, request.group_id)
    if group is None and state.respond_as_other_kind(message, request.group_id, now):
        return
    errors = [_leave_one(group, leaver) for leaver in request.members]
    state.reply(
        message, LeaveGroupResponse(members=[_response(leaver, e) for leaver, e in zip(request.members, errors)])
    )
    if group is not None and ErrorCode.NONE in errors:
        _after_leave(state, group, now)


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


def _after_leave(state: ShardState, group: ClassicGroup, now: int) -> None:
    if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
        prepare(state, group, now, "members left")
    else:
        go_on(state, group, now)
    write_departures(state, group, now)


def _response(leaver: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=error)
