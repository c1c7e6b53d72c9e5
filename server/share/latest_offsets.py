"""Looks up the end offsets of partitions for consumers, with one request to each leader."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.image import TopicPartition
from ...protocol.errors import ErrorCode
from ...protocol.log_places import LATEST
from ...protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ...protocol.node_ids import CONSUMER
from ..coordinators.scatter_and_gather import gather

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...protocol.messages.list_offsets import ListOffsetsResponse
    from ..config.endpoint import Endpoint
    from ..controller.leaders import Leaders
    from ..partitions.partitions import Partitions
    from ..runtime.lazy import Lazy

_REQUEST_TIMEOUT_MS = 30_000


class End(NamedTuple):
    """The end of a partition. `offset` is valid only without an error."""

    error: int
    offset: int = -1


Ends = dict[TopicPartition, End]


class LatestOffsets:
    """Looks up the high watermarks of partitions, led here or by other brokers."""

    def __init__(self, partitions: Partitions, leaders: Leaders, peers: Lazy[Peers]) -> None:
        self._partitions = partitions
        self._leaders = leaders
        self._peers = peers

    def look_up(self, wanted: Iterable[TopicPartition], done: Callable[[Ends], None]) -> None:
        """`done` gets the offset or the error of each partition, immediately if this broker leads all of them."""
        found: Ends = {}
        remote: dict[Endpoint, list[TopicPartition]] = {}
        for partition in wanted:
            hosted, leader = self._partitions.get(partition), self._leaders.other_leader(*partition)
            if hosted is not None and hosted.is_leader:
                found[partition] = End(ErrorCode.NONE, hosted.high_watermark)
            elif leader is not None:
                remote.setdefault(leader, []).append(partition)
            else:
                found[partition] = End(ErrorCode.LEADER_NOT_AVAILABLE)

        def answered(responses: list[Ends]) -> None:
            for response in responses:
                found.update(response)
            done(found)

        gather([partial(self._ask, leader, led) for leader, led in remote.items()], answered)

    def _ask(self, leader: Endpoint, led: list[TopicPartition], done: Callable[[Ends], None]) -> None:
        topics: dict[str, ListOffsetsTopic] = {}
        for name, index in led:
            topic = topics.setdefault(name, ListOffsetsTopic(name=name))
            topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
        request = ListOffsetsRequest(replica_id=CONSUMER, topics=list(topics.values()), timeout_ms=_REQUEST_TIMEOUT_MS)

        def answered(response: ListOffsetsResponse | None) -> None:
            ends = dict.fromkeys(led, End(ErrorCode.NETWORK_EXCEPTION))
            for topic in () if response is None else response.topics:
                ends |= {(topic.name, one.partition_index): End(one.error_code, one.offset) for one in topic.partitions}
            done(ends)

        self._peers().send(leader, request, answered, timeout_ms=_REQUEST_TIMEOUT_MS, purpose="latest offsets")
