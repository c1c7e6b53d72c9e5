"""ShareGroupDescribe (key 77): share groups: epochs, members and assignments.

Version 0 was of the early access in 4.0 (KIP-932).

Version 1, flexible.
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT16, INT32, STRING, Message, Request, array, message, struct, wire
from .described_assignments import DescribedAssignment


@message("1", flexible="0+", key=77)
class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"]):
    group_ids: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL)


@struct
class DescribedShareMember(Message):
    member_id: str = wire(STRING)
    rack_id: str | None = wire(STRING, nullable="0+", default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: list[str] = wire(array(STRING))
    assignment: DescribedAssignment = wire(DescribedAssignment)


@struct
class DescribedShareGroup(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(STRING)
    members: list[DescribedShareMember] = wire(array(DescribedShareMember))
    authorized_operations: int = wire(INT32, default=-2147483648)


@message("1", flexible="0+", key=77)
class ShareGroupDescribeResponse(Message):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribedShareGroup] = wire(array(DescribedShareGroup))
