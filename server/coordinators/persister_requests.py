"""Requests to the persister of share groups, on this broker and on others."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...coordinator.share_state import ShareKey
from ...coordinator.share_state_responses import FORMS, ShareStateRequest, share_state_error_response
from ...protocol.errors import ErrorCode
from ...protocol.schema import Request, ResponseCallback
from ..runtime.metadata_cache import MetadataCache
from .open_requests import Client
from .scatter_and_gather import gather
from .share_state_driver import ShareStateDriver, coordinator_key

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..controller.leaders import Leaders
    from ..runtime.lazy import Lazy

#: As in Kafka's persister: the number of attempts, and the backoff between them, which grows each time.
MOST_TRIES = 5
FIRST_BACKOFF_MS = 100
REQUEST_TIMEOUT_MS = 30_000
LATEST = 99
_RETRIED = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class Asker(NamedTuple):
    """This broker as the client of its own shards."""

    client_id: str | None = None
    client_host: str = ""


ASKER = Asker()


class Persister:
    """Sends requests to the coordinators of share-group state and joins their responses.

    One request may name many share partitions. Each part goes to the broker that leads the partition's part of
    `__share_group_state`, and the responses are joined into one. Retriable errors are retried for a limited time.
    """

    def __init__(
        self, shards: Lazy[ShareStateDriver], metadata: MetadataCache, leaders: Leaders, peers: Lazy[Peers]
    ) -> None:
        self._shards = shards
        self._metadata = metadata
        self._leaders = leaders
        self._peers = peers

    def ask(self, request: ShareStateRequest, reply: ResponseCallback) -> None:
        """Sends the request. `reply` gets one response for all share partitions, in the order of the request."""
        driver = self._shards()
        if self._metadata.image.topic(driver.topic) is None:
            driver.ensure_topic(partial(self._ask_each, request, reply))
        else:
            self._ask_each(request, reply)

    def _ask_each(self, request: ShareStateRequest, reply: ResponseCallback) -> None:
        if len(request.topics) == 1 and len(request.topics[0].partitions) == 1:
            self._ask_one(request, MOST_TRIES, reply)
            return
        gather([partial(self._ask_one, one, MOST_TRIES) for one in singles(request)], partial(joined, request, reply))

    def _ask_one(self, request: ShareStateRequest, tries: int, reply: ResponseCallback) -> None:
        driver = self._shards()
        key = coordinator_key(key_of(request))
        index = driver.partition_for(key)
        done = partial(self._answered, request, tries - 1, reply)
        endpoint = self._leaders.other_leader(driver.topic, index)
        if endpoint is None:
            driver.submit(key, request, LATEST, ASKER, done)
        else:
            sent: Request = request
            self._peers().send(endpoint, sent, done, timeout_ms=REQUEST_TIMEOUT_MS, purpose="share groups")

    def _answered(self, request: ShareStateRequest, tries: int, reply: ResponseCallback, response: Any) -> None:
        if response is None:
            response = share_state_error_response(request, LATEST, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif len(response.results) != 1 or len(response.results[0].partitions) != 1:
            # A shard on another broker returns an empty response to a request that names no group.
            response = share_state_error_response(request, LATEST, ErrorCode.UNKNOWN_SERVER_ERROR)
        error = response.results[0].partitions[0].error_code
        if error in _RETRIED and tries:
            backoff_ms = FIRST_BACKOFF_MS << (MOST_TRIES - 1 - tries)
            asyncio.get_running_loop().call_later(backoff_ms / 1000, self._ask_one, request, tries, reply)
        else:
            reply(response)


def submit_here(
    driver: ShareStateDriver, request: ShareStateRequest, version: int, client: Client, reply: ResponseCallback
) -> None:
    """Handles a request that another broker sends to this broker's shards."""
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        reply(FORMS[type(request)].response())
        return
    questions = [partial(driver.submit, coordinator_key(key_of(one)), one, version, client) for one in singles(request)]
    gather(questions, partial(joined, request, reply))


def reject_all(request: ShareStateRequest, error: ErrorCode, reply: ResponseCallback) -> None:
    """Answers each partition of a request with an error."""
    joined(request, reply, [share_state_error_response(single, LATEST, error) for single in singles(request)])


def singles(request: ShareStateRequest) -> list[ShareStateRequest]:
    """Splits the request into one request per share partition."""
    form = FORMS[type(request)]
    return [
        type(request)(group_id=request.group_id, topics=[form.topic(topic_id=topic.topic_id, partitions=[partition])])
        for topic in request.topics
        for partition in topic.partitions
    ]


def key_of(single: ShareStateRequest) -> ShareKey:
    (topic,) = single.topics
    return ShareKey(single.group_id, topic.topic_id, topic.partitions[0].partition)


def joined(request: Request, reply: ResponseCallback, responses: list[Any]) -> None:
    form = FORMS[type(request)]
    results: dict[bytes, Any] = {}
    for response in responses:
        (one,) = response.results
        if one.topic_id not in results:
            results[one.topic_id] = form.result(topic_id=one.topic_id)
        results[one.topic_id].partitions += one.partitions
    reply(form.response(results=list(results.values())))
