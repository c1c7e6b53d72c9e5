"""AssignReplicasToDirs (key 73): a broker tells the controller in which log directory its replicas are.

So that a failed directory costs only what was in it (KIP-858).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, UUID, Message, Request, array, message, struct, wire


@struct
class AssignReplicasToDirsRequestPartition(Message):
    partition_index: int = wire(INT32)


@struct
class AssignReplicasToDirsRequestTopic(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[AssignReplicasToDirsRequestPartition] = wire(array(AssignReplicasToDirsRequestPartition))


@struct
class AssignReplicasToDirsRequestDirectory(Message):
    id: bytes = wire(UUID)
    topics: list[AssignReplicasToDirsRequestTopic] = wire(array(AssignReplicasToDirsRequestTopic))


@message("0", flexible="0+", key=73)
class AssignReplicasToDirsRequest(Request["AssignReplicasToDirsResponse"]):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    directories: list[AssignReplicasToDirsRequestDirectory] = wire(array(AssignReplicasToDirsRequestDirectory))


@struct
class AssignReplicasToDirsResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@struct
class AssignReplicasToDirsResponseTopic(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[AssignReplicasToDirsResponsePartition] = wire(array(AssignReplicasToDirsResponsePartition))


@struct
class AssignReplicasToDirsResponseDirectory(Message):
    id: bytes = wire(UUID)
    topics: list[AssignReplicasToDirsResponseTopic] = wire(array(AssignReplicasToDirsResponseTopic))


@message("0", flexible="0+", key=73)
class AssignReplicasToDirsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    directories: list[AssignReplicasToDirsResponseDirectory] = wire(array(AssignReplicasToDirsResponseDirectory))
