"""DescribeTopicPartitions (key 75): topics in pages, with eligible leader replicas.

Topics in order of their names, up to a number of partitions; the cursor tells where to go on (KIP-966).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, STRING, UUID, Message, Request, array, message, struct, wire


@struct
class DescribeTopicPartitionsRequestTopic(Message):
    name: str = wire(STRING)


@struct
class TopicPartitionsCursor(Message):
    topic_name: str = wire(STRING)
    partition_index: int = wire(INT32)


@message("0", flexible="0+", key=75)
class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    topics: list[DescribeTopicPartitionsRequestTopic] = wire(array(DescribeTopicPartitionsRequestTopic))
    response_partition_limit: int = wire(INT32, default=2000)
    cursor: TopicPartitionsCursor | None = wire(TopicPartitionsCursor, nullable="0+", default=None)


@struct
class DescribeTopicPartitionsResponsePartition(Message):
    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, default=-1)
    replica_nodes: list[int] = wire(array(INT32))
    isr_nodes: list[int] = wire(array(INT32))
    eligible_leader_replicas: list[int] | None = wire(array(INT32), nullable="0+", default=None)
    last_known_elr: list[int] | None = wire(array(INT32), nullable="0+", default=None)
    offline_replicas: list[int] = wire(array(INT32))


@struct
class DescribeTopicPartitionsResponseTopic(Message):
    error_code: int = wire(INT16)
    name: str | None = wire(STRING, nullable="0+")
    topic_id: bytes = wire(UUID)
    is_internal: bool = wire(BOOL)
    partitions: list[DescribeTopicPartitionsResponsePartition] = wire(array(DescribeTopicPartitionsResponsePartition))
    topic_authorized_operations: int = wire(INT32, default=-2147483648)


@message("0", flexible="0+", key=75)
class DescribeTopicPartitionsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    topics: list[DescribeTopicPartitionsResponseTopic] = wire(array(DescribeTopicPartitionsResponseTopic))
    next_cursor: TopicPartitionsCursor | None = wire(TopicPartitionsCursor, nullable="0+", default=None)
