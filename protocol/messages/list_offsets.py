"""ListOffsets (key 2): the offset of a timestamp, or of a named place in the log.

The response is the first record whose timestamp is at or after the one asked for, -1 if there is none. Negative
timestamps are places: -1 the end (high watermark, or last stable offset for read_committed), -2 the start, -3 the
record with the greatest timestamp, -4 the start of what is on local disk, -5 the end of tiered storage, -6 the
earliest offset not yet tiered.

Versions 1-11, flexible from 6. Additions by version:
- 2: isolation level
- 4: leader epoch, both ways (KIP-320)
- 5: may answer OFFSET_NOT_AVAILABLE right after an election (KIP-207)
- 7: -3 (KIP-734)
- 8: -4 (KIP-405)
- 9: -5 (KIP-1005)
- 10: a timeout for look-ups in tiered storage (KIP-1075)
- 11: -6 (KIP-1023)
"""

from __future__ import annotations

from ..schema import INT8, INT16, INT32, INT64, STRING, Message, Request, array, message, struct, wire


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
class ListOffsetsRequest(Request["ListOffsetsResponse"]):
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
