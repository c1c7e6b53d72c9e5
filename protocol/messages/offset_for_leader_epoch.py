"""OffsetForLeaderEpoch (key 23): where a leader epoch ended in the log.

The largest epoch at or below the one asked for, and the offset after its last record: where a reader that was there
must cut off what another leader has overwritten (KIP-101, KIP-279). -1 when nothing is known of such epochs.

Versions 2-4, flexible from 4. Additions by version:
- 3: replica id; -2 may see beyond the high watermark
"""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, STRING, Message, Request, array, message, struct, wire


@struct
class OffsetForLeaderPartition(Message):
    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, "2+", default=-1)
    leader_epoch: int = wire(INT32)


@struct
class OffsetForLeaderTopic(Message):
    topic: str = wire(STRING)
    partitions: list[OffsetForLeaderPartition] = wire(array(OffsetForLeaderPartition))


@message("2-4", flexible="4+", key=23)
class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    replica_id: int = wire(INT32, "3+", default=-2)
    topics: list[OffsetForLeaderTopic] = wire(array(OffsetForLeaderTopic))


@struct
class OffsetForLeaderPartitionResult(Message):
    error_code: int = wire(INT16)
    partition: int = wire(INT32)
    leader_epoch: int = wire(INT32, "1+", default=-1)
    end_offset: int = wire(INT64, default=-1)


@struct
class OffsetForLeaderTopicResult(Message):
    topic: str = wire(STRING)
    partitions: list[OffsetForLeaderPartitionResult] = wire(array(OffsetForLeaderPartitionResult))


@message("2-4", flexible="4+", key=23)
class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: int = wire(INT32, "2+")
    topics: list[OffsetForLeaderTopicResult] = wire(array(OffsetForLeaderTopicResult))
