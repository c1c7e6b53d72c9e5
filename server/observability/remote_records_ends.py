"""Ends of records of partitions that other brokers lead: each leader gets a Fetch, as a consumer sends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ...admin.markers import MARKER_BYTES, Gap, records_end_in
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ..coordinators.scatter_and_gather import gather

if TYPE_CHECKING:
    from ...metadata.image import TopicPartition
    from ..config.endpoint import Endpoint
    from ..services import Services
    from .local_records_ends import RecordsEnds

Gaps = Mapping["TopicPartition", Gap]
_TIMEOUT_MS = 5_000


def remote_records_ends(services: Services, gaps: Gaps, done: Callable[[RecordsEnds], None]) -> None:
    """`done` gets the offset after the last record of each gap, where the leader has responded."""
    found: RecordsEnds = {}
    by_leader: dict[Endpoint, dict[TopicPartition, Gap]] = {}
    for place, gap in gaps.items():
        leader = services.replicas.leaders.other_leader(*place)
        if leader is not None:
            by_leader.setdefault(leader, {})[place] = gap

    def answered(responses: list[RecordsEnds]) -> None:
        for response in responses:
            found.update(response)
        done(found)

    gather([partial(_ask, services, leader, led) for leader, led in by_leader.items()], answered)


def _ask(services: Services, leader: Endpoint, gaps: Gaps, done: Callable[[RecordsEnds], None]) -> None:
    topics: dict[str, FetchTopic] = {}
    names: dict[bytes, str] = {}
    for (name, index), gap in gaps.items():
        known = services.metadata.image.topic(name)
        if known is None:
            continue
        names[known.id] = name
        topic = topics.setdefault(name, FetchTopic(topic=name, topic_id=known.id, partitions=[]))
        topic.partitions.append(
            FetchPartition(partition=index, fetch_offset=gap.offset, partition_max_bytes=MARKER_BYTES)
        )
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=MARKER_BYTES * len(gaps), topics=list(topics.values()))

    def answered(response: FetchResponse | None) -> None:
        found: RecordsEnds = {}
        for topic in () if response is None else response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for one in topic.partitions:
                gap = gaps.get((name, one.partition_index))
                if gap is not None and not one.error_code:
                    end = records_end_in(bytes(one.records or b""), gap)
                    found |= {(name, one.partition_index): end} if end is not None else {}
        done(found)

    services.network.peers().send(leader, request, answered, timeout_ms=_TIMEOUT_MS, purpose="ends of records")
