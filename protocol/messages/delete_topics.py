"""DeleteTopics (key 20): removes topics, by name or by id.

Their files are deleted in the background. TOPIC_DELETION_DISABLED where `delete.topic.enable` is off. Without the
right to describe a topic, an id is answered without its name.

Versions 1-6, flexible from 4. Additions by version:
- 3: TOPIC_DELETION_DISABLED
- 5: the error in words; may be throttled (KIP-599)
- 6: by id, the name may be null (KIP-516)
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, STRING, UUID, Message, Request, array, message, struct, wire


@struct
class DeleteTopicState(Message):
    name: str | None = wire(STRING, "6+", nullable="6+", default=None)
    topic_id: bytes = wire(UUID, "6+")


@message("1-6", flexible="4+", key=20)
class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    topics: list[DeleteTopicState] = wire(array(DeleteTopicState), "6+")
    topic_names: list[str] = wire(array(STRING), "0-5")
    timeout_ms: int = wire(INT32)


@struct
class DeletableTopicResult(Message):
    name: str | None = wire(STRING, nullable="6+")
    topic_id: bytes = wire(UUID, "6+")
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "5+", nullable="5+", default=None)


@message("1-6", flexible="4+", key=20)
class DeleteTopicsResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    responses: list[DeletableTopicResult] = wire(array(DeletableTopicResult))
