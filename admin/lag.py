"""Lag of groups, as Apache Kafka's tools show it: the end of a partition less the offset that the group has committed.

A partition that a group reads and has no commit in has no lag: where a reader begins there, `auto.offset.reset`, is a
setting of the client that no broker has. It is a row without a number, is in no total, and is counted (`Total.uncommitted`).
With `from_start` it counts from its first record, for groups whose members begin there.

The lag of a share group is what its coordinator counts (KIP-1226), or the records from its start offset on that it has not
been delivered. A partition that the group has not begun has none.

Where only markers of transactions follow the commit, no record waits, and the lag is 0. A client that commits the offset
after its last record, as librdkafka does, never commits an offset behind the markers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .places import Place


class GroupProgress(NamedTuple):
    """How far a group is in a partition. `offset`: the committed offset, or the start offset of a share group; None without
    one. `counted`: the lag that a share coordinator has counted. `delivered`: records from `offset` on that a share group is
    done with.
    """

    offset: int | None
    counted: int | None = None
    delivered: int = 0


class Log(NamedTuple):
    """A partition's log, as its leader describes it. `end`: its high watermark, None without a leader that responds.
    `start`: its first offset, where partitions count from there. `records_end`: the offset after its last record that is
    no marker, where that is known. `is_deleted`: the topic does not exist any more.
    """

    end: int | None = None
    start: int | None = None
    records_end: int | None = None
    is_deleted: bool = False


NO_LOG = Log()


@dataclass(frozen=True, slots=True)
class Lag:
    """`lag` is None for a partition without a commit (`committed` is None then), for one without a leader (`is_unknown`),
    and for one of a deleted topic.
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    is_unknown: bool = False

    @property
    def is_uncommitted(self) -> bool:
        return self.committed is None


@dataclass(frozen=True, slots=True)
class Total:
    """`lag`: the sum over the partitions that have one; None where no partition has one. `uncommitted`: the number of
    partitions without a commit. `unknown`: the number of those whose lag is not known, because they have no leader.
    """

    partitions: int
    lag: int | None
    uncommitted: int
    unknown: int


def lag_of(place: Place, position: GroupProgress, log: Log, *, from_start: bool = False) -> Lag:
    """The lag of one position. `from_start`: a partition without a commit counts from the start of its log."""
    counts = position.offset is not None or from_start
    lag = _count(position, log) if counts else None
    return Lag(*place, position.offset, log.end, lag, counts and lag is None and not log.is_deleted)


def _count(position: GroupProgress, log: Log) -> int | None:
    if position.offset is not None and position.counted is not None:
        return position.counted
    offset = log.start if position.offset is None else position.offset
    if offset is None or log.end is None:
        return None
    if log.records_end is not None and offset >= log.records_end:
        return 0
    return max(0, log.end - offset - position.delivered)


def lags_of(
    positions: Mapping[Place, GroupProgress], logs: Mapping[Place, Log], *, from_start: bool = False
) -> list[Lag]:
    """The lag of a group by partition, sorted."""
    return [
        lag_of(place, positions[place], logs.get(place, NO_LOG), from_start=from_start) for place in sorted(positions)
    ]


def total_of(lags: Sequence[Lag]) -> Total:
    return Total(
        len(lags),
        sum_of(one.lag for one in lags),
        sum(one.is_uncommitted for one in lags),
        sum(one.is_unknown for one in lags),
    )


def by_topic(lags: Iterable[Lag]) -> dict[str, int | None]:
    """The sum for each topic; None for a topic of which no partition has a lag."""
    found: dict[str, list[int | None]] = {}
    for one in lags:
        found.setdefault(one.topic, []).append(one.lag)
    return {topic: sum_of(counts) for topic, counts in found.items()}


def sum_of(counts: Iterable[int | None]) -> int | None:
    """The sum of the numbers that are there; None without any."""
    known = [one for one in counts if one is not None]
    return sum(known) if known else None


def places_read(
    committed: Iterable[Place], topics: Iterable[str], partitions: Mapping[str, Iterable[int]]
) -> set[Place]:
    """The partitions without a commit that a group of subscribers reads: those of the topics that its members read, or that
    have a commit of it. `partitions`: by topic.
    """
    known = set(committed)
    named = {*topics, *(topic for topic, _ in known)}
    return {(topic, index) for topic in named for index in partitions.get(topic, ())} - known
