"""ReadShareGroupStateSummary (key 87): the start and epochs of share partitions, without their ranges.

For the group coordinator, to describe offsets (KIP-932).

Versions 0-1, all flexible. Additions by version:
- 1: how many deliveries are complete above the start (KIP-1226)
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, INT64, STRING, UUID, Message, Request, array, message, struct, wire
from .share_state_reads import ReadStateData


@message("0-1", flexible="0+", key=87)
class ReadShareGroupStateSummaryRequest(Request["ReadShareGroupStateSummaryResponse"]):
    group_id: str = wire(STRING)
    topics: list[ReadStateData] = wire(array(ReadStateData))


@struct
class ReadStateSummaryPartitionResult(Message):
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
    partitions: list[ReadStateSummaryPartitionResult] = wire(array(ReadStateSummaryPartitionResult))


@message("0-1", flexible="0+", key=87)
class ReadShareGroupStateSummaryResponse(Message):
    results: list[ReadStateSummaryResult] = wire(array(ReadStateSummaryResult))
