"""ConsumerGroupDescribe (key 69): KIP-848 groups: epochs, members, their assignments and targets.

GROUP_ID_NOT_FOUND for groups of other types. A group with topics that the caller may not describe answers
TOPIC_AUTHORIZATION_FAILED, without its members.

Versions 0-1, all flexible. Additions by version:
- 1: whether a member uses the classic protocol (KIP-1099)
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire
from .described_assignments import DescribedAssignment


@message("0-1", flexible="0+", key=69)
class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"]):
    group_ids: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL)


@struct
class DescribedConsumerMember(Message):
    member_id: str = wire(STRING)
    instance_id: str | None = wire(STRING, nullable="0+", default=None)
    rack_id: str | None = wire(STRING, nullable="0+", default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: list[str] = wire(array(STRING))
    subscribed_topic_regex: str | None = wire(STRING, nullable="0+", default=None)
    assignment: DescribedAssignment = wire(DescribedAssignment)
    target_assignment: DescribedAssignment = wire(DescribedAssignment)
    member_type: int = wire(INT8, "1+", default=-1)


@struct
class DescribedConsumerGroup(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(STRING)
    members: list[DescribedConsumerMember] = wire(array(DescribedConsumerMember))
    authorized_operations: int = wire(INT32, default=-2147483648)


@message("0-1", flexible="0+", key=69)
class ConsumerGroupDescribeResponse(Message):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribedConsumerGroup] = wire(array(DescribedConsumerGroup))
