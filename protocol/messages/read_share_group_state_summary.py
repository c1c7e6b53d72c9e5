"""ReadShareGroupStateSummary (key 87): the start and epochs of share partitions, without their ranges.

For the group coordinator, to describe offsets (KIP-932).

Versions 0-1, all flexible. Additions by version:
- 1: how many deliveries are complete above the start (KIP-1226)
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, INT64, STRING, UUID, Message, array, message, struct, wire


@struct
class PartitionData(Message):
    partition: int = wire(INT32)
    leader_epoch: int = wire(INT32)


@struct
class ReadStateSummaryData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionData] = wire(array(PartitionData))


@message("0-1", flexible="0+", key=87)
class ReadShareGroupStateSummaryRequest(Message):
    group_id: str = wire(STRING)
    topics: list[ReadStateSummaryData] = wire(array(ReadStateSummaryData))


@struct
class PartitionResult(Message):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    state_epoch: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    delivery_complete_count: int = wire(INT32, "1+", default=-1)


@struct
class ReadStateSummaryResult(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionResult] = wire(array(PartitionResult))


@message("0-1", flexible="0+", key=87)
class ReadShareGroupStateSummaryResponse(Message):
    results: list[ReadStateSummaryResult] = wire(array(ReadStateSummaryResult))
