"""Offsets of logs by time or place: their ends, their starts, and those of remote stores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..protocol.isolation import READ_COMMITTED, READ_UNCOMMITTED
from ..protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ..protocol.node_ids import CONSUMER
from .errors import check
from .places import Place
from .session import Admin
from .topics import Topic, leaders_of

#: Partitions in one request for offsets: the responses of more take memory that a long process keeps.
_AT_ONCE = 500
_TIMEOUT_MS = 30_000


class ListedOffset(NamedTuple):
    """`offset` and `timestamp` are -1 where no record has the time or a later one. `leader_epoch` is None without one."""

    offset: int
    timestamp: int
    leader_epoch: int | None


def list_offsets(admin: Admin, places: Mapping[Place, int], *, committed: bool = False) -> dict[Place, ListedOffset]:
    """Offsets by place of the log or time in ms. With `committed` the end is the last stable offset.

    Raises ResponseError for the first partition that has none, such as one without a leader.
    """

    def step() -> dict[Place, ListedOffset]:
        found: dict[Place, ListedOffset] = {}
        for node, led in leaders_of(admin, places).items():
            for start in range(0, len(led), _AT_ONCE):
                some = {place: places[place] for place in led[start : start + _AT_ONCE]}
                found.update(_listed(admin, node, some, committed=committed))
        return found

    return admin.repeated(step) if places else {}


def _listed(
    admin: Admin, node: int, places: Mapping[Place, int], *, committed: bool
) -> Iterator[tuple[Place, ListedOffset]]:
    by_topic: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for (topic, index), timestamp in places.items():
        by_topic[topic].append(ListOffsetsPartition(partition_index=index, timestamp=timestamp))
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=READ_COMMITTED if committed else READ_UNCOMMITTED,
        topics=[ListOffsetsTopic(name, partitions) for name, partitions in by_topic.items()],
        timeout_ms=_TIMEOUT_MS,
    )
    for listed in admin.ask(request, node).topics:
        for partition in listed.partitions:
            check(f"{listed.name}-{partition.partition_index}", partition.error_code)
            epoch = partition.leader_epoch if partition.leader_epoch >= 0 else None
            place = listed.name, partition.partition_index
            yield place, ListedOffset(partition.offset, partition.timestamp, epoch)


def partition_offsets(
    admin: Admin,
    topics: Iterable[Topic],
    timestamp: int,
    *,
    committed: bool = False,
    without: Container[int] = (),
) -> dict[Place, int]:
    """Offsets of a place or a time in ms; without partitions that have no leader, or one of the brokers `without`."""
    asked = {
        (topic.name, partition.partition_index): timestamp
        for topic in topics
        for partition in topic.partitions
        if partition.leader_id >= 0 and partition.leader_id not in without
    }
    return {place: found.offset for place, found in list_offsets(admin, asked, committed=committed).items()}


def offsets_at(admin: Admin, places: Sequence[Place], timestamp: int) -> dict[Place, int]:
    """Offsets of partitions that have leaders, at a place of the log or a time in ms."""
    found = list_offsets(admin, dict.fromkeys(places, timestamp))
    return {place: one.offset for place, one in found.items()}
