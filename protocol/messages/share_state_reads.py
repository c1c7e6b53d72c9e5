"""The partitions of ReadShareGroupState and ReadShareGroupStateSummary (KIP-932)."""

from __future__ import annotations

from ..schema import INT32, UUID, Message, array, struct, wire


@struct
class ReadStatePartition(Message):
    partition: int = wire(INT32)
    leader_epoch: int = wire(INT32)


@struct
class ReadStateData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[ReadStatePartition] = wire(array(ReadStatePartition))
