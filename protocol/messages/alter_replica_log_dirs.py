"""AlterReplicaLogDirs (key 34): moves replicas between the log directories of this broker.

A copy is made beside the log in use and takes its place when it has caught up (KIP-113). LOG_DIR_NOT_FOUND,
KAFKA_STORAGE_ERROR.

Versions 1-2, flexible from 2.
"""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class AlterReplicaLogDirTopic(Message):
    name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@struct
class AlterReplicaLogDir(Message):
    path: str = wire(STRING)
    topics: list[AlterReplicaLogDirTopic] = wire(array(AlterReplicaLogDirTopic))


@message("1-2", flexible="2+", key=34)
class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"]):
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
