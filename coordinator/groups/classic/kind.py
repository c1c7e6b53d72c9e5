"""Classic groups: the leader among the members assigns, and all stop for it (KIP-62 and after)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode
from ....protocol.internal.consumer_offsets import GroupMetadataKey, GroupMetadataValue
from ....protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from ....protocol.messages.offsets import OffsetCommitRequest, TxnOffsetCommitRequest
from ....protocol.schema import Message
from ...result import Event
from ..state import CommittedOffset, ErrorResponse, Kind, OffsetRules, Session
from . import join
from . import join as leave
from . import join as sync
from .group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    State,
    delete_classic_group,
    departures_due,
    find_or_make,
    join_error,
)
from .join import join_timer_expired, prepare, session_expired, sync_timer_expired

if TYPE_CHECKING:
    from ..state import ShardState


# One error for a whole request of the classic protocol, where it is not the one of the schema.


def _join(request: JoinGroupRequest, version: int, error: ErrorCode) -> Message:
    """Names the member id only for an error of the request itself."""
    is_about_it = error in (ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_SESSION_TIMEOUT)
    return join_error(error, request.member_id if is_about_it else "")


def _heartbeat(request: HeartbeatRequest, version: int, error: ErrorCode) -> Message:
    """No error while the group loads, as in Kafka: the client would rejoin for nothing."""
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error)


ERROR_RESPONSES: dict[type[Message], ErrorResponse] = {JoinGroupRequest: _join, HeartbeatRequest: _heartbeat}


# Offset rules of classic groups: validation of commits and deletions, and expiration (KIP-211).


NO_EXPIRY_OF_ITS_OWN = -1


def validate_commit(
    state: ShardState, group: ClassicGroup, request: OffsetCommitRequest, version: int, now: int
) -> ErrorCode:
    """Validates a commit. Without a generation it is from a simple consumer or a tool, and the group must be empty."""
    generation_id = request.generation_id_or_member_epoch
    if generation_id < 0 and group.state is State.EMPTY:
        return ErrorCode.NONE
    # An empty member id is not a member either, so this also rejects commits from outside the group.
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is State.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    if group.state in (State.STABLE, State.PREPARING_REBALANCE):
        group.touch(group.members[request.member_id], now)
    return ErrorCode.NONE


def validate_transactional_commit(group: ClassicGroup, request: TxnOffsetCommitRequest) -> ErrorCode:
    generation_id = request.generation_id_or_member_epoch
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def validate_delete(group: ClassicGroup) -> ErrorCode:
    """Validates an offset deletion. Only for consumers are the subscribed topics known."""
    if group.state is not State.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def validate_deletion(group: ClassicGroup) -> ErrorCode:
    return ErrorCode.NONE if group.state is State.EMPTY else ErrorCode.NON_EMPTY_GROUP


def is_expired(state: ShardState, group: ClassicGroup, topic: str, committed: CommittedOffset, now: int) -> bool:
    if not _may_expire(group) or group.is_subscribed_to(topic):
        return False
    if committed.expire_timestamp_ms != NO_EXPIRY_OF_ITS_OWN:
        return now >= committed.expire_timestamp_ms
    since = committed.commit_timestamp_ms
    if group.protocol_type is not None and group.state is State.EMPTY and group.state_timestamp_ms != -1:
        since = group.state_timestamp_ms
    return now - since >= state.config.offsets_retention_ms


def _may_expire(group: ClassicGroup) -> bool:
    """Returns whether offsets may expire. For a group with members its subscriptions must be known."""
    if group.protocol_type is None or group.state is State.EMPTY:
        return True
    is_known = group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.subscribed_topics is not None
    return is_known and group.state is State.STABLE


RULES = OffsetRules(
    validate_commit=validate_commit,
    validate_transactional_commit=validate_transactional_commit,
    validate_delete=validate_delete,
    is_expired=is_expired,
)


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
        prepare(state, group, now, "the coordinator failed before the members could join it as a classic group")
    elif len(group.members) > state.config.max_group_size:
        prepare(state, group, now, "the loaded group has more members than group.max.size")


def _sessions(state: ShardState, group: ClassicGroup) -> Iterator[Session]:
    """Yields the sessions of members. A member whose request waits is alive, or has a timer of another length."""
    for member in group.members.values():
        if member.awaiting_join is None and member.awaiting_sync is None and not member.is_new:
            yield Session(member.member_id, member.session, member.session_timeout_ms)


def _expired(state: ShardState, event: Event, now: int) -> None:
    group = state.find(ClassicGroup, event[1])
    assert group is not None, "a deleted group takes its timers along"
    if event[0] == "classic session":
        session_expired(state, group, event[2], now)
    elif event[0] == "classic join":
        join_timer_expired(state, group, now)
    elif event[0] == "classic departures":
        departures_due(state, group)
    else:
        sync_timer_expired(state, group, now)


def _delete(state: ShardState, group: ClassicGroup) -> None:
    delete_classic_group(state, group.group_id)


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
    offsets=RULES,
    restore=_restore,
    sessions=_sessions,
    expired=_expired,
    delete=_delete,
    validate_deletion=validate_deletion,
    joins=(JoinGroupRequest,),
)
