"""InitializeShareGroupState (key 83): the share coordinator begins the state of share partitions.

Sent by the group coordinator, with a state epoch that fences older ones, and the first offset (KIP-932).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, INT64, STRING, UUID, Message, array, message, struct, wire


@struct
class PartitionData(Message):
    partition: int = wire(INT32)
    state_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)


@struct
class InitializeStateData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionData] = wire(array(PartitionData))


@message("0", flexible="0+", key=83)
class InitializeShareGroupStateRequest(Message):
    group_id: str = wire(STRING)
    topics: list[InitializeStateData] = wire(array(InitializeStateData))


@struct
class PartitionResult(Message):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@struct
class InitializeStateResult(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionResult] = wire(array(PartitionResult))


@message("0", flexible="0+", key=83)
class InitializeShareGroupStateResponse(Message):
    results: list[InitializeStateResult] = wire(array(InitializeStateResult))
