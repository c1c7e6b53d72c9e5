"""The results of BeginQuorumEpoch and EndQuorumEpoch: the leader and epoch that the receiver has."""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, Message, array, struct, wire


@struct
class EpochPartitionResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


@struct
class EpochTopicResponse(Message):
    topic_name: str = wire(STRING)
    partitions: list[EpochPartitionResponse] = wire(array(EpochPartitionResponse))
