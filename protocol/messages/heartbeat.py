"""Heartbeat (key 12): a member of a classic group is alive.

REBALANCE_IN_PROGRESS tells it to join again; ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID that it is
no longer the member it thinks it is. A member silent for its session timeout is dropped and the group rebalanced.

Versions 0-4, flexible from 4. Additions by version:
- 1: throttle time
- 3: static members (KIP-345)
"""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, Message, Request, message, wire


@message("0-4", flexible="4+", key=12)
class HeartbeatRequest(Request["HeartbeatResponse"]):
    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)


@message("0-4", flexible="4+", key=12)
class HeartbeatResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    error_code: int = wire(INT16)
