"""Looks up the end offsets of partitions for consumers, with one request to each leader."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ..runtime.gather import gather

if TYPE_CHECKING:
    from ..network.endpoint import Endpoint
    from ..node import Node

#: A topic's name and a partition's index.
Place = tuple[str, int]

_LATEST_TIMESTAMP = -1
_CONSUMER = -1
_REQUEST_TIMEOUT_MS = 30_000


class End(NamedTuple):
    """The end of a partition. `offset` is valid only without an error."""

    error: int
    offset: int = -1


Ends = dict[Place, End]


def latest_offsets(broker: Node, places: Iterable[Place], done: Callable[[Ends], None]) -> None:
    """Looks up the high watermarks. `done` gets the high watermark or the error of each partition, immediately if this
    broker leads all of them.
    """
    found: Ends = {}
    elsewhere: dict[Endpoint, list[Place]] = {}
    for place in places:
        hosted, leader = broker.partitions.get(place), broker.leaders.other_leader(*place)
        if hosted is not None and hosted.is_leader:
            found[place] = End(ErrorCode.NONE, hosted.high_watermark)
        elif leader is not None:
            elsewhere.setdefault(leader, []).append(place)
        else:
            found[place] = End(ErrorCode.LEADER_NOT_AVAILABLE)

    def answered(answers: list[Ends]) -> None:
        for answer in answers:
            found.update(answer)
        done(found)

    gather([partial(_ask, broker, leader, led) for leader, led in elsewhere.items()], answered)


def _ask(broker: Node, leader: Endpoint, places: list[Place], done: Callable[[Ends], None]) -> None:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, index in places:
        topic = topics.setdefault(name, ListOffsetsTopic(name=name))
        topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=_LATEST_TIMESTAMP))
    request = ListOffsetsRequest(replica_id=_CONSUMER, topics=list(topics.values()), timeout_ms=_REQUEST_TIMEOUT_MS)

    def answered(response: ListOffsetsResponse | None) -> None:
        ends = dict.fromkeys(places, End(ErrorCode.NETWORK_EXCEPTION))
        for topic in () if response is None else response.topics:
            ends |= {(topic.name, one.partition_index): End(one.error_code, one.offset) for one in topic.partitions}
        done(ends)

    broker.peers().send(leader, request, answered, timeout_ms=_REQUEST_TIMEOUT_MS, purpose="latest offsets")
