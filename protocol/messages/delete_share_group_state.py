"""DeleteShareGroupState (key 86): the share coordinator forgets share partitions.

Sent by the group coordinator when a group or its topic is deleted (KIP-932).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, STRING, UUID, Message, array, message, struct, wire


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
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@struct
class DeleteStateResult(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionResult] = wire(array(PartitionResult))


@message("0", flexible="0+", key=86)
class DeleteShareGroupStateResponse(Message):
    results: list[DeleteStateResult] = wire(array(DeleteStateResult))
