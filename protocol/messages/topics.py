"""Topics: creation, deletion, more partitions, deletion of records, description of partitions."""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, INT64, STRING, UUID, Message, array, message, struct, wire

# CreateTopics (key 19): makes topics.
#
# Each topic is created with a number of partitions and replicas, or with a replica assignment; -1 takes the default.
# The controller validates names (INVALID_TOPIC_EXCEPTION, also for names that differ only in . and _), configs, counts and
# replicas, and calls the create-topic policy. `validate_only` does all of it and creates nothing. The response has the
# configs, counts and id of each created topic.
#
# Versions 2-7, flexible from 5. Additions by version:
# - 4: counts may be left to the broker (KIP-464)
# - 5: partitions, replicas and configs in the response (KIP-525)
# - 6: may be throttled by THROTTLING_QUOTA_EXCEEDED (KIP-599)
# - 7: topic id in the response (KIP-516)


@struct
class CreatableReplicaAssignment(Message):
    partition_index: int = wire(INT32)
    broker_ids: list[int] = wire(array(INT32))


@struct
class CreatableTopicConfig(Message):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable="0+")


@struct
class CreatableTopic(Message):
    name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    assignments: list[CreatableReplicaAssignment] = wire(array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = wire(array(CreatableTopicConfig))


@message("2-7", flexible="5+", key=19)
class CreateTopicsRequest(Message):
    topics: list[CreatableTopic] = wire(array(CreatableTopic))
    timeout_ms: int = wire(INT32, default=60000)
    validate_only: bool = wire(BOOL, "1+")


@struct
class CreatableTopicConfigs(Message):
    name: str = wire(STRING, "5+")
    value: str | None = wire(STRING, "5+", nullable="5+")
    read_only: bool = wire(BOOL, "5+")
    config_source: int = wire(INT8, "5+", default=-1)
    is_sensitive: bool = wire(BOOL, "5+")


@struct
class CreatableTopicResult(Message):
    name: str = wire(STRING)
    topic_id: bytes = wire(UUID, "7+")
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "1+", nullable="0+")
    topic_config_error_code: int = wire(INT16, "5+", tag=0)
    num_partitions: int = wire(INT32, "5+", default=-1)
    replication_factor: int = wire(INT16, "5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = wire(array(CreatableTopicConfigs), "5+", nullable="5+")


@message("2-7", flexible="5+", key=19)
class CreateTopicsResponse(Message):
    throttle_time_ms: int = wire(INT32, "2+")
    topics: list[CreatableTopicResult] = wire(array(CreatableTopicResult))


# DeleteTopics (key 20): removes topics, by name or by id.
#
# Their files are deleted in the background. TOPIC_DELETION_DISABLED where `delete.topic.enable` is off. Without the
# right to describe a topic, an id is answered without its name.
#
# Versions 1-6, flexible from 4. Additions by version:
# - 3: TOPIC_DELETION_DISABLED
# - 5: the error in words; may be throttled (KIP-599)
# - 6: by id, the name may be null (KIP-516)


@struct
class DeleteTopicState(Message):
    name: str | None = wire(STRING, "6+", nullable="6+", default=None)
    topic_id: bytes = wire(UUID, "6+")


@message("1-6", flexible="4+", key=20)
class DeleteTopicsRequest(Message):
    topics: list[DeleteTopicState] = wire(array(DeleteTopicState), "6+")
    topic_names: list[str] = wire(array(STRING), "0-5")
    timeout_ms: int = wire(INT32)


@struct
class DeletableTopicResult(Message):
    name: str | None = wire(STRING, nullable="6+")
    topic_id: bytes = wire(UUID, "6+")
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "5+", nullable="5+", default=None)


@message("1-6", flexible="4+", key=20)
class DeleteTopicsResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    responses: list[DeletableTopicResult] = wire(array(DeletableTopicResult))


# CreatePartitions (key 37): raises the number of partitions of topics.
#
# INVALID_PARTITIONS where it would not grow, REASSIGNMENT_IN_PROGRESS while replicas move. Replicas of the new
# partitions may be listed. Each topic asked for has its response.
#
# Versions 0-3, flexible from 2. Additions by version:
# - 3: may be throttled by THROTTLING_QUOTA_EXCEEDED (KIP-599)


@struct
class CreatePartitionsAssignment(Message):
    broker_ids: list[int] = wire(array(INT32))


@struct
class CreatePartitionsTopic(Message):
    name: str = wire(STRING)
    count: int = wire(INT32)
    assignments: list[CreatePartitionsAssignment] | None = wire(array(CreatePartitionsAssignment), nullable="0+")


@message("0-3", flexible="2+", key=37)
class CreatePartitionsRequest(Message):
    topics: list[CreatePartitionsTopic] = wire(array(CreatePartitionsTopic))
    timeout_ms: int = wire(INT32)
    validate_only: bool = wire(BOOL)


@struct
class CreatePartitionsTopicResult(Message):
    name: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@message("0-3", flexible="2+", key=37)
class CreatePartitionsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    results: list[CreatePartitionsTopicResult] = wire(array(CreatePartitionsTopicResult))


# DeleteRecords (key 21): moves the start of partitions up.
#
# Everything before the offset goes; -1 means the high watermark. Answered with the new start when all live replicas
# have it, else REQUEST_TIMED_OUT. POLICY_VIOLATION on a topic that is only compacted (KIP-107).
#
# Versions 0-2, flexible from 2.


@struct
class DeleteRecordsPartition(Message):
    partition_index: int = wire(INT32)
    offset: int = wire(INT64)


@struct
class DeleteRecordsTopic(Message):
    name: str = wire(STRING)
    partitions: list[DeleteRecordsPartition] = wire(array(DeleteRecordsPartition))


@message("0-2", flexible="2+", key=21)
class DeleteRecordsRequest(Message):
    topics: list[DeleteRecordsTopic] = wire(array(DeleteRecordsTopic))
    timeout_ms: int = wire(INT32)


@struct
class DeleteRecordsPartitionResult(Message):
    partition_index: int = wire(INT32)
    low_watermark: int = wire(INT64)
    error_code: int = wire(INT16)


@struct
class DeleteRecordsTopicResult(Message):
    name: str = wire(STRING)
    partitions: list[DeleteRecordsPartitionResult] = wire(array(DeleteRecordsPartitionResult))


@message("0-2", flexible="2+", key=21)
class DeleteRecordsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    topics: list[DeleteRecordsTopicResult] = wire(array(DeleteRecordsTopicResult))


# DescribeTopicPartitions (key 75): topics in pages, with eligible leader replicas.
#
# Topics in order of their names, up to a number of partitions; the cursor tells where to go on (KIP-966).
#
# Version 0, flexible.


@struct
class TopicRequest(Message):
    name: str = wire(STRING)


@struct
class Cursor(Message):
    topic_name: str = wire(STRING)
    partition_index: int = wire(INT32)


@message("0", flexible="0+", key=75)
class DescribeTopicPartitionsRequest(Message):
    topics: list[TopicRequest] = wire(array(TopicRequest))
    response_partition_limit: int = wire(INT32, default=2000)
    cursor: Cursor | None = wire(Cursor, nullable="0+", default=None)


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
    next_cursor: Cursor | None = wire(Cursor, nullable="0+", default=None)
