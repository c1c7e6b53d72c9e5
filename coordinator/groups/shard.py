"""The coordinator of the groups that one partition of `__consumer_offsets` holds. Uses no disk, clock or random
source.

    shard = GroupShard(config)
    shard.replay(record) ...          the log, from its start; `end_of_transaction` for its markers
    shard.loaded(now)                 and from then on
    shard.handle(message, now)        a GroupRequest, TopicsDeleted or MetadataChanged
    shard.take()                      -> Output: records to append, then replies to give when those are committed
    shard.deadline(), expire(now)     when to wake it up, and its waking

`now` is in milliseconds since 1970, as the records' timestamps are. A shard whose records cannot be appended, or
whose leadership ends, is dropped whole and loaded again from the log: it has gone ahead of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.error_responses import error_response_to
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ...protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ...protocol.messages.heartbeat import HeartbeatRequest
from ...protocol.messages.join_group import JoinGroupRequest
from ...protocol.messages.leave_group import LeaveGroupRequest
from ...protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ...protocol.messages.offset_commit import OffsetCommitRequest
from ...protocol.messages.offset_delete import OffsetDeleteRequest
from ...protocol.messages.offset_fetch import OffsetFetchRequest
from ...protocol.messages.sync_group import SyncGroupRequest
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ...protocol.schema import Message
from ..common.result import GroupRequest, GroupsConfig, MetadataChanged, Output, Record, TopicsDeleted
from ..common.timers import Timer
from . import offsets, silence
from .base.kind import Operation
from .base.state import ShardState
from .classic.group import ClassicGroup, State, find_or_make
from .kinds import KINDS
from .offsets import commit_transactional, delete_offsets_of_group, delete_offsets_of_topics, expire_offsets

# Validation of requests independent of the group's state, so that it can run before the lookup of the group's shard.
#
# Kafka accepts an empty group id in requests of tools and simple consumers: commits, fetches, descriptions, deletions.


#: The first version of SyncGroup that must include the protocol type and name (KIP-559).
PROTOCOL_REQUIRED_VERSION = 5

Check = Callable[[GroupsConfig, Any, int], ErrorCode]


def validate(config: GroupsConfig, request: Message, version: int) -> ErrorCode:
    """Returns the first error of the request's checks; NONE for a valid request."""
    for check in CHECKS.get(type(request), ()):
        error = check(config, request, version)
        if error is not ErrorCode.NONE:
            return error
    return ErrorCode.NONE


def group_id_is_given(config: GroupsConfig, request: Any, version: int) -> ErrorCode:
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def session_timeout_is_allowed(config: GroupsConfig, request: JoinGroupRequest, version: int) -> ErrorCode:
    is_allowed = config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms
    return ErrorCode.NONE if is_allowed else ErrorCode.INVALID_SESSION_TIMEOUT


def protocol_is_named(config: GroupsConfig, request: SyncGroupRequest, version: int) -> ErrorCode:
    is_named = request.protocol_type is not None and request.protocol_name is not None
    may_be_left_out = version < PROTOCOL_REQUIRED_VERSION
    return ErrorCode.NONE if is_named or may_be_left_out else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


CHECKS: dict[type[Message], tuple[Check, ...]] = {
    JoinGroupRequest: (group_id_is_given, session_timeout_is_allowed),
    SyncGroupRequest: (protocol_is_named, group_id_is_given),
    HeartbeatRequest: (group_id_is_given,),
    LeaveGroupRequest: (group_id_is_given,),
    OffsetDeleteRequest: (group_id_is_given,),
    TxnOffsetCommitRequest: (group_id_is_given,),
}


# Admin requests on groups: DescribeGroups 0-6, ListGroups 0-5, DeleteGroups 0-3.


#: The first version of DescribeGroups that distinguishes a missing group from a dead one (KIP-1043).
GROUP_ID_NOT_FOUND_VERSION = 6


def describe(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, DescribeGroupsRequest)
    described = []
    for group_id in request.groups:
        one = _described(state.find(ClassicGroup, group_id), group_id, message.version)
        if group_id in state.groups and one.error_code:
            one.error_message = f"Group {group_id} is not a classic group."
        described.append(one)
    state.reply(message, DescribeGroupsResponse(groups=described))


def _described(group: ClassicGroup | None, group_id: str, version: int) -> DescribedGroup:
    if group is None:
        absent = DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
        if version >= GROUP_ID_NOT_FOUND_VERSION:
            absent.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            absent.error_message = f"Group {group_id} not found."
        return absent
    # Only in a Stable group does every member's metadata belong to the group's protocol.
    protocol_name = group.protocol_name if group.state is State.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
        members=[member.as_described(protocol_name) for member in group.members.values()],
    )


def list_groups(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, ListGroupsRequest)
    states = {name.lower().strip() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    response = ListGroupsResponse()
    for group in state.groups.values():
        is_asked_for = not types or group.kind in types
        if is_asked_for and (not states or group.state.value.lower() in states):
            response.groups.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=group.kind,
                )
            )
    state.reply(message, response)


def delete_groups(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, DeleteGroupsRequest)
    results = []
    for group_id in request.groups_names:
        group = state.groups.get(group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else state.kind_of(group).validate_deletion(group)
        if group is not None and error is ErrorCode.NONE:
            delete_offsets_of_group(state, group_id)
            state.kind_of(group).delete(state, group)
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
    state.reply(message, DeleteGroupsResponse(results=results))


#: The operations of groups of all kinds; those of single kinds are in kinds.py.
OPERATIONS: dict[type[Message], Operation] = {
    OffsetCommitRequest: offsets.commit,
    OffsetFetchRequest: offsets.fetch,
    TxnOffsetCommitRequest: commit_transactional,
    OffsetDeleteRequest: offsets.delete,
    DescribeGroupsRequest: describe,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
}


def error_response(request: Message, version: int, error: ErrorCode) -> Message:
    """Returns the response to a request that failed as a whole: the schema's, or that of its kind of group."""
    own = None if type(request) in OPERATIONS else KINDS.error_response(type(request))
    return error_response_to(request, version, error) if own is None else own(request, version, error)


class GroupShard:
    def __init__(self, config: GroupsConfig, next_offset: int = 0) -> None:
        self.state = ShardState(config, KINDS.by_name, KINDS.replays, find_or_make)
        self.state.next_offset = next_offset
        self._retention_timer = Timer(("retention",))
        self._silence = silence.SilenceCheck()

    def handle(self, message: GroupRequest | TopicsDeleted | MetadataChanged, now: int) -> None:
        if type(message) is GroupRequest:
            request = message.request
            error = validate(self.state.config, request, message.version)
            if error is ErrorCode.NONE:
                operation = OPERATIONS.get(type(request)) or KINDS.operation(type(request))
                operation(self.state, message, now)
                self._silence.plan(self.state, now)
            else:
                self.state.reply(message, error_response(request, message.version, error))
        elif type(message) is MetadataChanged:
            self._metadata_changed(message)
        else:
            assert isinstance(message, TopicsDeleted)
            delete_offsets_of_topics(self.state, message.topics)

    def deadline(self) -> int | None:
        return self.state.timers.next_deadline()

    def expire(self, now: int) -> None:
        while (timer := self.state.timers.due(now)) is not None:
            self._expired(timer, now)

    def take(self) -> Output:
        """Returns the decisions since the last call. The caller appends the records before it sends any reply."""
        state = self.state
        output = Output(state.records[:], state.replies[:])
        # The lists stay: the groups hold the one of replies.
        state.records.clear()
        state.replies.clear()
        return output

    def replay(self, record: Record, producer_id: int = -1) -> None:
        self.state.replay(record, producer_id)

    def end_of_transaction(self, producer_id: int, committed: bool) -> None:
        self.state.offsets.replay_end_of_transaction(producer_id, committed)

    def loaded(self, now: int) -> None:
        self._plan_retention(now)
        for group in list(self.state.groups.values()):
            self.state.kind_of(group).restore(self.state, group, now)
        silence.shorten_sessions(self.state, now)
        self._silence.plan(self.state, now)

    def hand_over(self, now: int) -> None:
        """Writes what the next coordinator is to know, before a planned stop moves the partition."""
        silence.hand_over(self.state, now)

    def _metadata_changed(self, message: MetadataChanged) -> None:
        self.state.image = message.image
        for group in list(self.state.groups.values()) if message.topics else ():
            changed = self.state.kind_of(group).metadata_changed
            if changed is not None:
                changed(self.state, group, message.topics)

    def _plan_retention(self, now: int) -> None:
        self.state.timers.set(self._retention_timer, now + self.state.config.offsets_retention_check_interval_ms)

    def _expired(self, timer: Timer, now: int) -> None:
        if timer is self._retention_timer:
            expire_offsets(self.state, now)
            self._plan_retention(now)
        elif timer is self._silence.timer:
            self._silence.expired(self.state, now)
        else:
            KINDS.by_name[timer.event[0].partition(" ")[0]].expired(self.state, timer.event, now)
