"""ListOffsets (key 2), versions 1-11, flexible from 6."""

from __future__ import annotations

from ..schema import INT8, INT16, INT32, INT64, STRING, Message, array, message, struct, wire


@struct
class ListOffsetsPartition(Message):
    partition_index: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, "4+", default=-1)
    timestamp: int = wire(INT64)


@struct
class ListOffsetsTopic(Message):
    name: str = wire(STRING)
    partitions: list[ListOffsetsPartition] = wire(array(ListOffsetsPartition))


@message("1-11", flexible="6+", key=2)
class ListOffsetsRequest(Message):
    replica_id: int = wire(INT32)
    isolation_level: int = wire(INT8, "2+")
    topics: list[ListOffsetsTopic] = wire(array(ListOffsetsTopic))
    timeout_ms: int = wire(INT32, "10+")


@struct
class ListOffsetsPartitionResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    timestamp: int = wire(INT64, "1+", default=-1)
    offset: int = wire(INT64, "1+", default=-1)
    leader_epoch: int = wire(INT32, "4+", default=-1)


@struct
class ListOffsetsTopicResponse(Message):
    name: str = wire(STRING)
    partitions: list[ListOffsetsPartitionResponse] = wire(array(ListOffsetsPartitionResponse))


@message("1-11", flexible="6+", key=2)
class ListOffsetsResponse(Message):
    throttle_time_ms: int = wire(INT32, "2+")
    topics: list[ListOffsetsTopicResponse] = wire(array(ListOffsetsTopicResponse))
