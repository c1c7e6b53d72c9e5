"""JoinGroup (key 11): a member enters a classic group, or asks for its rebalance.

Answered when all known members have joined or the rebalance timeout has passed: the leader gets every member's
subscription and must assign by SyncGroup. The protocol chosen is one that all members support, by their votes. A
member without an id gets one with MEMBER_ID_REQUIRED and joins again (KIP-394); a static member takes the place of
its earlier self by its instance id.

Versions 0-9, flexible from 6. Additions by version:
- 1: rebalance timeout apart from the session's (KIP-62)
- 4: the id must be asked for first (KIP-394)
- 5: static members (KIP-345)
- 7: protocol type in the response (KIP-559)
- 8: the reason, for the broker's log (KIP-800)
- 9: SkipAssignment lets a static leader skip the assignment (KIP-814)
"""

from __future__ import annotations

from ..schema import BOOL, BYTES, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class JoinGroupRequestProtocol(Message):
    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


@message("0-9", flexible="6+", key=11)
class JoinGroupRequest(Request["JoinGroupResponse"]):
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
