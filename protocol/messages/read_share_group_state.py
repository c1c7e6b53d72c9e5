"""ReadShareGroupState (key 84): the state of share partitions, for their leader.

The start, and the ranges above it with their delivery states and counts. The leader epoch fences former leaders
(KIP-932).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT8, INT16, INT32, INT64, STRING, UUID, Message, array, message, struct, wire


@struct
class PartitionData(Message):
    partition: int = wire(INT32)
    leader_epoch: int = wire(INT32)


@struct
class ReadStateData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionData] = wire(array(PartitionData))


@message("0", flexible="0+", key=84)
class ReadShareGroupStateRequest(Message):
    group_id: str = wire(STRING)
    topics: list[ReadStateData] = wire(array(ReadStateData))


@struct
class StateBatch(Message):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    delivery_state: int = wire(INT8)
    delivery_count: int = wire(INT16)


@struct
class PartitionResult(Message):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    state_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    state_batches: list[StateBatch] = wire(array(StateBatch))


@struct
class ReadStateResult(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionResult] = wire(array(PartitionResult))


@message("0", flexible="0+", key=84)
class ReadShareGroupStateResponse(Message):
    results: list[ReadStateResult] = wire(array(ReadStateResult))
