"""SyncGroup (key 14): the leader of a classic group hands in assignments, each member gets its own.

Followers' requests wait until the leader's has come; the assignment is committed to `__consumer_offsets` before
anyone is answered. A member that has an assignment is never answered an empty one. A member that does not sync in
time is dropped.

Versions 0-5, flexible from 4. Additions by version:
- 1: throttle time
- 3: static members (KIP-345)
- 5: protocol type and name, checked against the group's (KIP-559)
"""

from __future__ import annotations

from ..schema import BYTES, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class SyncGroupRequestAssignment(Message):
    member_id: str = wire(STRING)
    assignment: bytes = wire(BYTES)


@message("0-5", flexible="4+", key=14)
class SyncGroupRequest(Request["SyncGroupResponse"]):
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
