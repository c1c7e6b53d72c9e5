"""A running broker made as if new: every topic deleted, and with `__consumer_offsets` every group. For tests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode
from ..protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

if TYPE_CHECKING:
    from .broker import BrokerServer

#: The version of DeleteTopics that takes topic ids.
DELETE_TOPICS_VERSION = 6


async def delete_everything(broker: BrokerServer) -> None:
    """Returns when the deletion is committed and applied here. Raises RuntimeError where a topic stays."""
    topics = [DeleteTopicState(name=None, topic_id=topic.id) for topic in broker.image.topics.by_id.values()]
    if not topics:
        return
    done: asyncio.Future[DeleteTopicsResponse] = asyncio.get_running_loop().create_future()
    request = DeleteTopicsRequest(topics=topics, timeout_ms=30_000)
    broker.controller.submit(request, DELETE_TOPICS_VERSION, done.set_result)
    answer = await done
    failed = {result.name: ErrorCode(result.error_code).name for result in answer.responses if result.error_code}
    if failed:
        raise RuntimeError(f"could not delete {failed}")
