"""Groups: membership of classic groups, and descriptions, lists and deletion of groups."""

from __future__ import annotations

from ..schema import BOOL, BYTES, ERROR_TEXT, INT16, INT32, STRING, Message, array, message, struct, wire

# JoinGroup (key 11): a member enters a classic group, or asks for its rebalance.
#
# Answered when all known members have joined or the rebalance timeout has passed: the leader gets every member's
# subscription and must assign by SyncGroup. The protocol chosen is one that all members support, by their votes. A
# member without an id gets one with MEMBER_ID_REQUIRED and joins again (KIP-394); a static member takes the place of
# its earlier self by its instance id.
#
# Versions 0-9, flexible from 6. Additions by version:
# - 1: rebalance timeout apart from the session's (KIP-62)
# - 4: the id must be asked for first (KIP-394)
# - 5: static members (KIP-345)
# - 7: protocol type in the response (KIP-559)
# - 8: the reason, for the broker's log (KIP-800)
# - 9: SkipAssignment lets a static leader skip the assignment (KIP-814)


@struct
class JoinGroupRequestProtocol(Message):
    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


@message("0-9", flexible="6+", key=11)
class JoinGroupRequest(Message):
    group_id: str = wire(STRING)
    session_timeout_ms: int = wire(INT32)
    rebalance_timeout_ms: int = wire(INT32, "1+", default=-1)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "5+", nullable="5+", default=None)
    protocol_type: str = wire(STRING)
    protocols: list[JoinGroupRequestProtocol] = wire(array(JoinGroupRequestProtocol))
    reason: str | None = wire(STRING, "8+", nullable="8+", default=None)


@struct
class JoinGroupResponseMember(Message):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "5+", nullable="5+", default=None)
    metadata: bytes = wire(BYTES)


@message("0-9", flexible="6+", key=11)
class JoinGroupResponse(Message):
    throttle_time_ms: int = wire(INT32, "2+")
    error_code: int = wire(INT16)
    generation_id: int = wire(INT32, default=-1)
    protocol_type: str | None = wire(STRING, "7+", nullable="7+", default=None)
    protocol_name: str | None = wire(STRING, nullable="7+")
    leader: str = wire(STRING)
    skip_assignment: bool = wire(BOOL, "9+")
    member_id: str = wire(STRING)
    members: list[JoinGroupResponseMember] = wire(array(JoinGroupResponseMember))


# SyncGroup (key 14): the leader of a classic group hands in assignments, each member gets its own.
#
# Followers' requests wait until the leader's has come; the assignment is committed to `__consumer_offsets` before
# anyone is answered. A member that has an assignment is never answered an empty one. A member that does not sync in
# time is dropped.
#
# Versions 0-5, flexible from 4. Additions by version:
# - 1: throttle time
# - 3: static members (KIP-345)
# - 5: protocol type and name, checked against the group's (KIP-559)


@struct
class SyncGroupRequestAssignment(Message):
    member_id: str = wire(STRING)
    assignment: bytes = wire(BYTES)


@message("0-5", flexible="4+", key=14)
class SyncGroupRequest(Message):
    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    protocol_type: str | None = wire(STRING, "5+", nullable="5+", default=None)
    protocol_name: str | None = wire(STRING, "5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = wire(array(SyncGroupRequestAssignment))


@message("0-5", flexible="4+", key=14)
class SyncGroupResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    error_code: int = wire(INT16)
    protocol_type: str | None = wire(STRING, "5+", nullable="5+", default=None)
    protocol_name: str | None = wire(STRING, "5+", nullable="5+", default=None)
    assignment: bytes = wire(BYTES)


# Heartbeat (key 12): a member of a classic group is alive.
#
# REBALANCE_IN_PROGRESS tells it to join again; ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID that it is
# no longer the member it thinks it is. A member silent for its session timeout is dropped and the group rebalanced.
#
# Versions 0-4, flexible from 4. Additions by version:
# - 1: throttle time
# - 3: static members (KIP-345)


@message("0-4", flexible="4+", key=12)
class HeartbeatRequest(Message):
    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)


@message("0-4", flexible="4+", key=12)
class HeartbeatResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    error_code: int = wire(INT16)


# LeaveGroup (key 13): members leave a classic group.
#
# The group rebalances without waiting for their sessions. From version 3 an administrator may take out several members,
# static ones by their instance id alone.
#
# Versions 0-5, flexible from 4. Additions by version:
# - 1: throttle time
# - 3: several members, static ones by instance id (KIP-345)
# - 5: the reason, for the broker's log (KIP-800)


@struct
class MemberIdentity(Message):
    member_id: str = wire(STRING, "3+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    reason: str | None = wire(STRING, "5+", nullable="5+", default=None)


@message("0-5", flexible="4+", key=13)
class LeaveGroupRequest(Message):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING, "0-2")
    members: list[MemberIdentity] = wire(array(MemberIdentity), "3+")


@struct
class MemberResponse(Message):
    member_id: str = wire(STRING, "3+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+")
    error_code: int = wire(INT16, "3+")


@message("0-5", flexible="4+", key=13)
class LeaveGroupResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    error_code: int = wire(INT16)
    members: list[MemberResponse] = wire(array(MemberResponse), "3+")


# DescribeGroups (key 15): state, protocol and members of classic groups.
#
# Subscriptions and assignments are shown only while the group is Stable. A group that does not exist is Dead without an
# error up to version 5, GROUP_ID_NOT_FOUND from 6 on.
#
# Versions 0-6, flexible from 5. Additions by version:
# - 3: authorized operations, when asked for (KIP-430)
# - 4: instance ids (KIP-345)
# - 6: GROUP_ID_NOT_FOUND with words (KIP-1043)


@message("0-6", flexible="5+", key=15)
class DescribeGroupsRequest(Message):
    groups: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL, "3+")


@struct
class DescribedGroupMember(Message):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "4+", nullable="4+", default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    member_metadata: bytes = wire(BYTES)
    member_assignment: bytes = wire(BYTES)


@struct
class DescribedGroup(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "6+", nullable="6+", default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    protocol_type: str = wire(STRING)
    protocol_data: str = wire(STRING)
    members: list[DescribedGroupMember] = wire(array(DescribedGroupMember))
    authorized_operations: int = wire(INT32, "3+", default=-2147483648)


@message("0-6", flexible="5+", key=15)
class DescribeGroupsResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    groups: list[DescribedGroup] = wire(array(DescribedGroup))


# ListGroups (key 16): the groups that this broker coordinates, of all types.
#
# A client asks every broker. Filters, when there are any, name the states and types wanted, in any case.
#
# Versions 0-5, flexible from 3. Additions by version:
# - 1: throttle time
# - 4: states, and a filter of them (KIP-518)
# - 5: types (classic, consumer, share, streams), and a filter of them (KIP-848)


@message("0-5", flexible="3+", key=16)
class ListGroupsRequest(Message):
    states_filter: list[str] = wire(array(STRING), "4+")
    types_filter: list[str] = wire(array(STRING), "5+")


@struct
class ListedGroup(Message):
    group_id: str = wire(STRING)
    protocol_type: str = wire(STRING)
    group_state: str = wire(STRING, "4+")
    group_type: str = wire(STRING, "5+")


@message("0-5", flexible="3+", key=16)
class ListGroupsResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    error_code: int = wire(INT16)
    groups: list[ListedGroup] = wire(array(ListedGroup))


# DeleteGroups (key 42): removes groups and their offsets.
#
# Each group answers for itself: NON_EMPTY_GROUP while it has members, GROUP_ID_NOT_FOUND.
#
# Versions 0-3, flexible from 2. Additions by version:
# - 3: the error in words


@message("0-3", flexible="2+", key=42)
class DeleteGroupsRequest(Message):
    groups_names: list[str] = wire(array(STRING))


@struct
class DeletableGroupResult(Message):
    group_id: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "3+", nullable="3+", default=None)


@message("0-3", flexible="2+", key=42)
class DeleteGroupsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    results: list[DeletableGroupResult] = wire(array(DeletableGroupResult))
