"""A broker as new: all topics, groups and settings of clients are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode
from ..protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from .controller_request import ask_controller

if TYPE_CHECKING:
    from ..server.broker import BrokerServer

#: The version of DeleteTopics that takes topic ids.
DELETE_TOPICS_VERSION = 6

#: A client of the same broker may delete a topic in the same moment.
_DELETED = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def delete_everything(broker: BrokerServer) -> None:
    """Returns when the deletion is committed and applied here.

    Raises RuntimeError where a topic stays, and where the broker has failed, TimeoutError.
    """
    topics = [
        DeleteTopicState(name=None, topic_id=topic.id) for topic in broker.node.metadata.image.topics.by_id.values()
    ]
    if not topics:
        return
    request = DeleteTopicsRequest(topics=topics, timeout_ms=30_000)
    results = (await ask_controller(broker, request, DELETE_TOPICS_VERSION)).responses
    failed = {result.name: ErrorCode(result.error_code).name for result in results if result.error_code not in _DELETED}
    if failed:
        raise RuntimeError(f"could not delete {failed}")
