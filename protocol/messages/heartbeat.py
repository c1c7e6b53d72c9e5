"""Heartbeat (key 12), versions 0-4, flexible from 4."""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, Message, message, wire


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
