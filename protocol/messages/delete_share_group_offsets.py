"""DeleteShareGroupOffsets (key 92): forgets topics of a share group.

Only while it is empty (NON_EMPTY_GROUP) (KIP-932).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, STRING, UUID, Message, Request, array, message, struct, wire


@struct
class DeleteShareGroupOffsetsRequestTopic(Message):
    topic_name: str = wire(STRING)


@message("0", flexible="0+", key=92)
class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"]):
    group_id: str = wire(STRING)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = wire(array(DeleteShareGroupOffsetsRequestTopic))


@struct
class DeleteShareGroupOffsetsResponseTopic(Message):
    topic_name: str = wire(STRING)
    topic_id: bytes = wire(UUID)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@message("0", flexible="0+", key=92)
class DeleteShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = wire(array(DeleteShareGroupOffsetsResponseTopic))
