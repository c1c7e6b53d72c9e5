"""Log directories: the replicas in them, their moves, and what brokers report to the controller."""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, UUID, Message, array, message, struct, wire

# DescribeLogDirs (key 35): the log directories of this broker and the size of what is in them.
#
# A null list asks for all partitions. A future copy that is being moved has `is_future_key`; `offset_lag` tells how far
# a replica is behind (KIP-113).
#
# Versions 1-5, flexible from 2. Additions by version:
# - 3: an error for the whole response
# - 4: total and usable bytes of each volume (KIP-827)
# - 5: whether the directory is cordoned, taking no new partitions (KIP-1066)


@struct
class DescribableLogDirTopic(Message):
    topic: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@message("1-5", flexible="2+", key=35)
class DescribeLogDirsRequest(Message):
    topics: list[DescribableLogDirTopic] | None = wire(array(DescribableLogDirTopic), nullable="0+")


@struct
class DescribeLogDirsPartition(Message):
    partition_index: int = wire(INT32)
    partition_size: int = wire(INT64)
    offset_lag: int = wire(INT64)
    is_future_key: bool = wire(BOOL)


@struct
class DescribeLogDirsTopic(Message):
    name: str = wire(STRING)
    partitions: list[DescribeLogDirsPartition] = wire(array(DescribeLogDirsPartition))


@struct
class DescribeLogDirsResult(Message):
    error_code: int = wire(INT16)
    log_dir: str = wire(STRING)
    topics: list[DescribeLogDirsTopic] = wire(array(DescribeLogDirsTopic))
    total_bytes: int = wire(INT64, "4+", default=-1)
    usable_bytes: int = wire(INT64, "4+", default=-1)
    is_cordoned: bool = wire(BOOL, "5+")


@message("1-5", flexible="2+", key=35)
class DescribeLogDirsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, "3+")
    results: list[DescribeLogDirsResult] = wire(array(DescribeLogDirsResult))


# AlterReplicaLogDirs (key 34): moves replicas between the log directories of this broker.
#
# A copy is made beside the log in use and takes its place when it has caught up (KIP-113). LOG_DIR_NOT_FOUND,
# KAFKA_STORAGE_ERROR.
#
# Versions 1-2, flexible from 2.


@struct
class AlterReplicaLogDirTopic(Message):
    name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@struct
class AlterReplicaLogDir(Message):
    path: str = wire(STRING)
    topics: list[AlterReplicaLogDirTopic] = wire(array(AlterReplicaLogDirTopic))


@message("1-2", flexible="2+", key=34)
class AlterReplicaLogDirsRequest(Message):
    dirs: list[AlterReplicaLogDir] = wire(array(AlterReplicaLogDir))


@struct
class AlterReplicaLogDirPartitionResult(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@struct
class AlterReplicaLogDirTopicResult(Message):
    topic_name: str = wire(STRING)
    partitions: list[AlterReplicaLogDirPartitionResult] = wire(array(AlterReplicaLogDirPartitionResult))


@message("1-2", flexible="2+", key=34)
class AlterReplicaLogDirsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    results: list[AlterReplicaLogDirTopicResult] = wire(array(AlterReplicaLogDirTopicResult))


# AssignReplicasToDirs (key 73): a broker tells the controller in which log directory its replicas are.
#
# So that a failed directory costs only what was in it (KIP-858).
#
# Version 0, flexible.


@struct
class PartitionDataRequest(Message):
    partition_index: int = wire(INT32)


@struct
class TopicDataRequest(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionDataRequest] = wire(array(PartitionDataRequest))


@struct
class DirectoryDataRequest(Message):
    id: bytes = wire(UUID)
    topics: list[TopicDataRequest] = wire(array(TopicDataRequest))


@message("0", flexible="0+", key=73)
class AssignReplicasToDirsRequest(Message):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    directories: list[DirectoryDataRequest] = wire(array(DirectoryDataRequest))


@struct
class PartitionDataResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@struct
class TopicDataResponse(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionDataResponse] = wire(array(PartitionDataResponse))


@struct
class DirectoryDataResponse(Message):
    id: bytes = wire(UUID)
    topics: list[TopicDataResponse] = wire(array(TopicDataResponse))


@message("0", flexible="0+", key=73)
class AssignReplicasToDirsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    directories: list[DirectoryDataResponse] = wire(array(DirectoryDataResponse))
