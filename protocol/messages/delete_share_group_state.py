"""DeleteShareGroupState (key 86), versions 0, flexible from 0."""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, UUID, Message, array, message, struct, wire


@struct
class PartitionData(Message):
    partition: int = wire(INT32)


@struct
class DeleteStateData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionData] = wire(array(PartitionData))


@message("0", flexible="0+", key=86)
class DeleteShareGroupStateRequest(Message):
    group_id: str = wire(STRING)
    topics: list[DeleteStateData] = wire(array(DeleteStateData))


@struct
class PartitionResult(Message):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable="0+", default=None)


@struct
class DeleteStateResult(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionResult] = wire(array(PartitionResult))


@message("0", flexible="0+", key=86)
class DeleteShareGroupStateResponse(Message):
    results: list[DeleteStateResult] = wire(array(DeleteStateResult))
