"""ShareGroupHeartbeat (key 76): a member of a share group: join, subscribe, leave.

Epoch 0 joins, -1 leaves. Partitions may be given to several members at once, so nothing is ever waited for (KIP-932).
Version 0 was of the early access in 4.0.

Version 1, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, STRING, Message, Request, array, message, wire
from .assignments import Assignment


@message("1", flexible="0+", key=76)
class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"]):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    rack_id: str | None = wire(STRING, nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = wire(array(STRING), nullable="0+", default=None)


@message("1", flexible="0+", key=76)
class ShareGroupHeartbeatResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    member_id: str | None = wire(STRING, nullable="0+", default=None)
    member_epoch: int = wire(INT32)
    heartbeat_interval_ms: int = wire(INT32)
    assignment: Assignment | None = wire(Assignment, nullable="0+", default=None)
