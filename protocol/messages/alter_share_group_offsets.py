"""AlterShareGroupOffsets (key 91): sets the start offsets of a share group.

Only while it is empty (NON_EMPTY_GROUP) (KIP-932).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, INT64, STRING, UUID, Message, Request, array, message, struct, wire


@struct
class AlterShareGroupOffsetsRequestPartition(Message):
    partition_index: int = wire(INT32)
    start_offset: int = wire(INT64)


@struct
class AlterShareGroupOffsetsRequestTopic(Message):
    topic_name: str = wire(STRING)
    partitions: list[AlterShareGroupOffsetsRequestPartition] = wire(array(AlterShareGroupOffsetsRequestPartition))


@message("0", flexible="0+", key=91)
class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"]):
    group_id: str = wire(STRING)
    topics: list[AlterShareGroupOffsetsRequestTopic] = wire(array(AlterShareGroupOffsetsRequestTopic))


@struct
class AlterShareGroupOffsetsResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@struct
class AlterShareGroupOffsetsResponseTopic(Message):
    topic_name: str = wire(STRING)
    topic_id: bytes = wire(UUID)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = wire(array(AlterShareGroupOffsetsResponsePartition))


@message("0", flexible="0+", key=91)
class AlterShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = wire(array(AlterShareGroupOffsetsResponseTopic))
