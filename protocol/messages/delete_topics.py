"""DeleteTopics (key 20), versions 1-6, flexible from 4."""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, UUID, Message, array, message, struct, wire


@struct
class DeleteTopicState(Message):
    name: str | None = wire(STRING, "6+", nullable="6+", default=None)
    topic_id: bytes = wire(UUID, "6+")


@message("1-6", flexible="4+", key=20)
class DeleteTopicsRequest(Message):
    topics: list[DeleteTopicState] = wire(array(DeleteTopicState), "6+")
    topic_names: list[str] = wire(array(STRING), "0-5")
    timeout_ms: int = wire(INT32)


@struct
class DeletableTopicResult(Message):
    name: str | None = wire(STRING, nullable="6+")
    topic_id: bytes = wire(UUID, "6+")
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, "5+", nullable="5+", default=None)


@message("1-6", flexible="4+", key=20)
class DeleteTopicsResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    responses: list[DeletableTopicResult] = wire(array(DeletableTopicResult))
