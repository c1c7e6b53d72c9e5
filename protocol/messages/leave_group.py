"""LeaveGroup (key 13): members leave a classic group.

The group rebalances without waiting for their sessions. From version 3 an administrator may take out several members,
static ones by their instance id alone.

Versions 0-5, flexible from 4. Additions by version:
- 1: throttle time
- 3: several members, static ones by instance id (KIP-345)
- 5: the reason, for the broker's log (KIP-800)
"""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class MemberIdentity(Message):
    member_id: str = wire(STRING, "3+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    reason: str | None = wire(STRING, "5+", nullable="5+", default=None)


@message("0-5", flexible="4+", key=13)
class LeaveGroupRequest(Request["LeaveGroupResponse"]):
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
