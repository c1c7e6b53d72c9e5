"""ShareGroupDescribe (key 77): share groups: epochs, members and assignments.

Version 0 was of the early access in 4.0 (KIP-932).

Version 1, flexible.
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT16, INT32, STRING, UUID, Message, array, message, struct, wire


@message("1", flexible="0+", key=77)
class ShareGroupDescribeRequest(Message):
    group_ids: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL)


@struct
class TopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@struct
class Assignment(Message):
    topic_partitions: list[TopicPartitions] = wire(array(TopicPartitions))


@struct
class Member(Message):
    member_id: str = wire(STRING)
    rack_id: str | None = wire(STRING, nullable="0+", default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: list[str] = wire(array(STRING))
    assignment: Assignment = wire(Assignment)


@struct
class DescribedGroup(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(STRING)
    members: list[Member] = wire(array(Member))
    authorized_operations: int = wire(INT32, default=-2147483648)


@message("1", flexible="0+", key=77)
class ShareGroupDescribeResponse(Message):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribedGroup] = wire(array(DescribedGroup))
