"""SyncGroup (key 14), versions 0-5, flexible from 4."""

from __future__ import annotations

from ..schema import BYTES, INT16, INT32, STRING, Message, array, message, struct, wire


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
