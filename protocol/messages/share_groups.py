"""Share groups (KIP-932): heartbeats, descriptions, start offsets."""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT16, INT32, INT64, STRING, UUID, Message, array, message, struct, wire
from .consumer_groups import Assignment, DescribedAssignment

# ShareGroupHeartbeat (key 76): a member of a share group: join, subscribe, leave.
#
# Epoch 0 joins, -1 leaves. Partitions may be given to several members at once, so nothing is ever waited for (KIP-932).
# Version 0 was of the early access in 4.0.
#
# Version 1, flexible.


@message("1", flexible="0+", key=76)
class ShareGroupHeartbeatRequest(Message):
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


# ShareGroupDescribe (key 77): share groups: epochs, members and assignments.
#
# Version 0 was of the early access in 4.0 (KIP-932).
#
# Version 1, flexible.


@message("1", flexible="0+", key=77)
class ShareGroupDescribeRequest(Message):
    group_ids: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL)


@struct
class Member(Message):
    member_id: str = wire(STRING)
    rack_id: str | None = wire(STRING, nullable="0+", default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: list[str] = wire(array(STRING))
    assignment: DescribedAssignment = wire(DescribedAssignment)


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


# DescribeShareGroupOffsets (key 90): the start offsets of share groups.
#
# A null list of topics asks for all. Read from the share coordinators (KIP-932).
#
# Versions 0-1, all flexible. Additions by version:
# - 1: lag (KIP-1226)


@struct
class DescribeShareGroupOffsetsRequestTopic(Message):
    topic_name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@struct
class DescribeShareGroupOffsetsRequestGroup(Message):
    group_id: str = wire(STRING)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = wire(
        array(DescribeShareGroupOffsetsRequestTopic), nullable="0+"
    )


@message("0-1", flexible="0+", key=90)
class DescribeShareGroupOffsetsRequest(Message):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = wire(array(DescribeShareGroupOffsetsRequestGroup))


@struct
class DescribeShareGroupOffsetsResponsePartition(Message):
    partition_index: int = wire(INT32)
    start_offset: int = wire(INT64)
    leader_epoch: int = wire(INT32)
    lag: int = wire(INT64, "1+", default=-1)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@struct
class DescribeShareGroupOffsetsResponseTopic(Message):
    topic_name: str = wire(STRING)
    topic_id: bytes = wire(UUID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = wire(
        array(DescribeShareGroupOffsetsResponsePartition)
    )


@struct
class DescribeShareGroupOffsetsResponseGroup(Message):
    group_id: str = wire(STRING)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = wire(array(DescribeShareGroupOffsetsResponseTopic))
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@message("0-1", flexible="0+", key=90)
class DescribeShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = wire(array(DescribeShareGroupOffsetsResponseGroup))


# AlterShareGroupOffsets (key 91): sets the start offsets of a share group.
#
# Only while it is empty (NON_EMPTY_GROUP) (KIP-932).
#
# Version 0, flexible.


@struct
class AlterShareGroupOffsetsRequestPartition(Message):
    partition_index: int = wire(INT32)
    start_offset: int = wire(INT64)


@struct
class AlterShareGroupOffsetsRequestTopic(Message):
    topic_name: str = wire(STRING)
    partitions: list[AlterShareGroupOffsetsRequestPartition] = wire(array(AlterShareGroupOffsetsRequestPartition))


@message("0", flexible="0+", key=91)
class AlterShareGroupOffsetsRequest(Message):
    group_id: str = wire(STRING)
    topics: list[AlterShareGroupOffsetsRequestTopic] = wire(array(AlterShareGroupOffsetsRequestTopic))


@struct
class AlterShareGroupOffsetsResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@struct
class AlterShareGroupOffsetsResponseTopic(Message):
    topic_name: str = wire(STRING)
    topic_id: bytes = wire(UUID)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = wire(array(AlterShareGroupOffsetsResponsePartition))


@message("0", flexible="0+", key=91)
class AlterShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = wire(array(AlterShareGroupOffsetsResponseTopic))


# DeleteShareGroupOffsets (key 92): forgets topics of a share group.
#
# Only while it is empty (NON_EMPTY_GROUP) (KIP-932).
#
# Version 0, flexible.


@struct
class DeleteShareGroupOffsetsRequestTopic(Message):
    topic_name: str = wire(STRING)


@message("0", flexible="0+", key=92)
class DeleteShareGroupOffsetsRequest(Message):
    group_id: str = wire(STRING)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = wire(array(DeleteShareGroupOffsetsRequestTopic))


@struct
class DeleteShareGroupOffsetsResponseTopic(Message):
    topic_name: str = wire(STRING)
    topic_id: bytes = wire(UUID)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@message("0", flexible="0+", key=92)
class DeleteShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = wire(array(DeleteShareGroupOffsetsResponseTopic))
