"""A broker as new: all topics, groups and settings of clients are deleted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode
from ..protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

if TYPE_CHECKING:
    from ..protocol.messages.delete_topics import DeleteTopicsResponse
    from ..server.broker import BrokerServer

#: The version of DeleteTopics that takes topic ids.
DELETE_TOPICS_VERSION = 6

#: A client of the same broker may delete a topic in the same moment.
_DELETED = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def delete_everything(broker: BrokerServer) -> None:
    """Returns when the deletion is committed and applied here.

    Raises RuntimeError where a topic stays, and where the broker has failed.
    """
    topics = [
        DeleteTopicState(name=None, topic_id=topic.id) for topic in broker.node.metadata.image.topics.by_id.values()
    ]
    if not topics:
        return
    answered: asyncio.Future[DeleteTopicsResponse] = asyncio.get_running_loop().create_future()
    request = DeleteTopicsRequest(topics=topics, timeout_ms=30_000)
    broker.controller.driver.submit(request, DELETE_TOPICS_VERSION, lambda response: _set(answered, response))
    ends: list[asyncio.Future[object]] = [answered, broker.failed]  # type: ignore[list-item]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not answered.done():
        raise RuntimeError(f"the broker cannot continue: {broker.failed.result()}")
    results = answered.result().responses
    failed = {result.name: ErrorCode(result.error_code).name for result in results if result.error_code not in _DELETED}
    if failed:
        raise RuntimeError(f"could not delete {failed}")


def _set(answered: asyncio.Future[DeleteTopicsResponse], response: DeleteTopicsResponse) -> None:
    if not answered.done():
        answered.set_result(response)
