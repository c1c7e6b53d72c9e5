"""ReadShareGroupState (key 84): the state of share partitions, for their leader.

The start, and the ranges above it with their delivery states and counts. The leader epoch fences former leaders
(KIP-932).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, INT64, STRING, UUID, Message, Request, array, message, struct, wire
from .share_state_batches import StateBatchData
from .share_state_reads import ReadStateData


@message("0", flexible="0+", key=84)
class ReadShareGroupStateRequest(Request["ReadShareGroupStateResponse"]):
    group_id: str = wire(STRING)
    topics: list[ReadStateData] = wire(array(ReadStateData))


@struct
class ReadStatePartitionResult(Message):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    state_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    state_batches: list[StateBatchData] = wire(array(StateBatchData))


@struct
class ReadStateResult(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[ReadStatePartitionResult] = wire(array(ReadStatePartitionResult))


@message("0", flexible="0+", key=84)
class ReadShareGroupStateResponse(Message):
    results: list[ReadStateResult] = wire(array(ReadStateResult))
