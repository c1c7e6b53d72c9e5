"""AssignReplicasToDirs (key 73): a broker tells the controller in which log directory its replicas are.

So that a failed directory costs only what was in it (KIP-858).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, UUID, Message, array, message, struct, wire


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
