"""Batches at the ends of partitions that groups have nearly read: whether they are markers of transactions alone."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ..protocol.uuids import ZERO_UUID
from .errors import RequestFailed
from .markers import MARKER_BYTES, Gap, records_end_in
from .places import Place

if TYPE_CHECKING:
    from ..protocol.messages.fetch import FetchResponse
    from .session import Admin


class Led(NamedTuple):
    """The leader of a partition that responds, and the id of its topic."""

    leader: int
    topic_id: UUID | None


def records_ends(admin: Admin, gaps: Mapping[Place, Gap], led: Mapping[Place, Led]) -> dict[Place, int]:
    """The offset after the last record of each gap. Without partitions whose leader does not respond or denies the records,
    and without those that have more batches than markers take.
    """
    by_leader: dict[int, list[Place]] = defaultdict(list)
    for place in gaps:
        by_leader[led[place].leader].append(place)
    found: dict[Place, int] = {}
    for leader, places in by_leader.items():
        with contextlib.suppress(RequestFailed):
            found |= _fetched(admin, leader, {place: gaps[place] for place in places}, led)
    return found


def _fetched(admin: Admin, leader: int, gaps: Mapping[Place, Gap], led: Mapping[Place, Led]) -> dict[Place, int]:
    from ..protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    topics: dict[str, FetchTopic] = {}
    names: dict[bytes, str] = {}
    for (name, index), gap in gaps.items():
        topic_id = _bytes_of(led[name, index].topic_id)
        names[topic_id] = name
        topic = topics.setdefault(name, FetchTopic(topic=name, topic_id=topic_id, partitions=[]))
        topic.partitions.append(
            FetchPartition(partition=index, fetch_offset=gap.offset, partition_max_bytes=MARKER_BYTES)
        )
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=MARKER_BYTES * len(gaps), topics=list(topics.values()))
    response: FetchResponse = admin.ask(request, leader)
    found: dict[Place, int] = {}
    for topic_data in response.responses:
        name = topic_data.topic or names.get(topic_data.topic_id, "")
        for one in topic_data.partitions:
            place = (name, one.partition_index)
            if one.error_code or place not in gaps:
                continue
            end = records_end_in(bytes(one.records or b""), gaps[place])
            if end is not None:
                found[place] = end
    return found


def _bytes_of(topic_id: UUID | None) -> bytes:
    return ZERO_UUID if topic_id is None else topic_id.bytes
