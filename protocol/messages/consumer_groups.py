"""Consumer groups (KIP-848): heartbeats and descriptions."""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, STRING, UUID, Message, array, message, struct, wire

# ConsumerGroupHeartbeat (key 68): a member of a KIP-848 group: join, subscribe, own, leave, all in one.
#
# Epoch 0 joins, -1 leaves, -2 leaves for a while (static). Only what changed is sent, both ways; the assignment comes
# when the member has to act on it, and its new epoch when it has given back what it must. FENCED_MEMBER_EPOCH makes it
# start anew.
#
# Versions 0-1, all flexible. Additions by version:
# - 1: a regular expression for topics, evaluated by the broker; the member draws its own id (KIP-1082)


@struct
class TopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = wire(array(INT32))


@message("0-1", flexible="0+", key=68)
class ConsumerGroupHeartbeatRequest(Message):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    instance_id: str | None = wire(STRING, nullable="0+", default=None)
    rack_id: str | None = wire(STRING, nullable="0+", default=None)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    subscribed_topic_names: list[str] | None = wire(array(STRING), nullable="0+", default=None)
    subscribed_topic_regex: str | None = wire(STRING, "1+", nullable="1+", default=None)
    server_assignor: str | None = wire(STRING, nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = wire(array(TopicPartitions), nullable="0+", default=None)


@struct
class Assignment(Message):
    topic_partitions: list[TopicPartitions] = wire(array(TopicPartitions))


@message("0-1", flexible="0+", key=68)
class ConsumerGroupHeartbeatResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    member_id: str | None = wire(STRING, nullable="0+", default=None)
    member_epoch: int = wire(INT32)
    heartbeat_interval_ms: int = wire(INT32)
    assignment: Assignment | None = wire(Assignment, nullable="0+", default=None)


# ConsumerGroupDescribe (key 69): KIP-848 groups: epochs, members, their assignments and targets.
#
# GROUP_ID_NOT_FOUND for groups of other types. A group with topics that the caller may not describe answers
# TOPIC_AUTHORIZATION_FAILED, without its members.
#
# Versions 0-1, all flexible. Additions by version:
# - 1: whether a member uses the classic protocol (KIP-1099)


@message("0-1", flexible="0+", key=69)
class ConsumerGroupDescribeRequest(Message):
    group_ids: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL)


@struct
class DescribedTopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@struct
class DescribedAssignment(Message):
    topic_partitions: list[DescribedTopicPartitions] = wire(array(DescribedTopicPartitions))


@struct
class Member(Message):
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


@message("0-1", flexible="0+", key=69)
class ConsumerGroupDescribeResponse(Message):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribedGroup] = wire(array(DescribedGroup))
