"""Lag of the groups that this broker coordinates, of every kind: how many records each has not done with.

For classic, consumer and streams groups, the lag of a partition is its high watermark less the committed offset. A group
whose members subscribe to topics has all partitions of each topic that its members read or that has a commit of it. A
partition without a commit counts from its first record: where a consumer begins is a setting of the client. For share groups
it is the high watermark less the start offset and less what is delivered above it (KIP-1226). The leaders of partitions on
other brokers get a request with each scrape; a partition whose end does not come in time has no sample and is counted.

The number of series is bounded by `odradek.metrics.lag.series`, for partitions and for groups each. The largest lags
are shown, and what is left out is counted.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from prometheus_client.core import GaugeMetricFamily, Metric

from ...coordinator.groups.share.offset_requests import InitializedPartitions, KnownPartitions
from ...metadata.image import TopicPartition
from ...protocol.messages import read_share_group_state_summary as summary
from ..coordinators.persister import ASKER
from ..runtime.gather import gather
from ..runtime.sliced_work import Steps, in_slices
from ..share.share_groups import EARLIEST

if TYPE_CHECKING:
    from ...coordinator.groups.base.group import Group
    from ...protocol.schema import ResponseCallback
    from ..services import Services
    from ..share.share_groups import Ends

LIMIT_KEY = "odradek.metrics.lag.series"
#: A scrape waits no longer for coordinators and leaders on other brokers.
WAIT_S = 1.0
_CLASSIC = "classic"
_SHARE = "share"
_OWN_VERSION = 0
#: Protocol types of groups that assign whole topics to their members; groups with another type only commit.
_SUBSCRIBING = ("consumer", "streams")
#: Past the end of every partition.
_AT_END = (1 << 63) - 1


class Position(NamedTuple):
    """How far a group is in a partition: None where it has not begun. `done` counts records above `offset` that it is done
    with, too.
    """

    group: str
    kind: str
    partition: TopicPartition
    offset: int | None
    done: int = 0


def _by_lag(lag: Lag) -> tuple[int, str, TopicPartition]:
    return lag.lag, lag.at.group, lag.at.partition


class Lag(NamedTuple):
    """The lag of a position."""

    lag: int
    at: Position


async def group_lag(services: Services) -> list[Metric]:
    """Returns the families of lag, now."""
    positions, share_groups = await in_slices(_committed(services))
    positions += await _within(partial(_of_share_groups, services, share_groups), [])
    look_up = services.share.latest_offsets().look_up
    ends = await _within(partial(look_up, {one.partition for one in positions}), {})
    unbegun = {one.partition for one in positions if one.offset is None}
    firsts = await _within(partial(look_up, unbegun, timestamp=EARLIEST), {}) if unbegun else {}
    return await in_slices(_families(services.config.get(LIMIT_KEY), positions, ends, firsts))


async def _within(ask: Callable[[ResponseCallback], None], otherwise: Any) -> Any:
    """Returns what `ask` passes to its callback, or `otherwise` when that takes too long."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    ask(lambda answer: None if answered.done() else answered.set_result(answer))
    try:
        return await asyncio.wait_for(answered, WAIT_S)
    except TimeoutError:
        return otherwise


# ---- positions


def _committed(services: Services) -> Steps[tuple[list[Position], list[str]]]:
    """Positions of groups that commit offsets, and the ids of share groups, which commit none."""
    found: list[Position] = []
    share_groups: list[str] = []
    for driver in services.coordinators.groups.shards():
        if driver.shard is None:
            continue
        state = driver.shard.state
        committed = dict(state.offsets.groups())
        for group_id in [*committed, *(one for one in state.groups if one not in committed)]:
            group = state.groups.get(group_id)
            if group is not None and group.kind == _SHARE:
                share_groups.append(group_id)
                continue
            topics = dict(committed.get(group_id, {}))
            for topic in dict.fromkeys((*topics, *(group.input_topics() if _subscribes(group) else ()))):
                yield
                found += _of_topic(services, group_id, group, topic, topics.get(topic, {}))
    return found, share_groups


def _subscribes(group: Group | None) -> TypeGuard[Group]:
    return group is not None and group.protocol_type in _SUBSCRIBING


def _of_topic(
    services: Services, group_id: str, group: Group | None, topic: str, committed: Mapping[int, Any]
) -> Iterator[Position]:
    kind = group.kind if group is not None else _CLASSIC
    for index, one in committed.items():
        yield Position(group_id, kind, (topic, index), one.offset)
    known = services.metadata.image.topic(topic)
    if _subscribes(group) and known is not None:
        for index in known.partitions:
            if index not in committed:
                yield Position(group_id, kind, (topic, index), None)


def _of_share_groups(services: Services, groups: list[str], done: Callable[[list[Position]], None]) -> None:
    """`done` gets the positions of share groups, from their persister."""
    found: list[Position] = []
    limited = groups[: services.config.get(LIMIT_KEY)]
    gather([partial(_of_share_group, services, group, found) for group in limited], lambda _: done(found))


def _of_share_group(services: Services, group: str, found: list[Position], done: Callable[[None], None]) -> None:
    def known(answer: KnownPartitions) -> None:
        topics = [
            summary.ReadStateSummaryData(
                topic_id=topic_id, partitions=[summary.PartitionData(partition=index) for index in sorted(indexes)]
            )
            for topic_id, indexes in answer.partitions.items()
            if services.metadata.image.topic_by_id(topic_id) is not None
        ]
        if answer.error or not topics:
            done(None)
            return
        services.share.persister().ask(
            summary.ReadShareGroupStateSummaryRequest(group_id=group, topics=topics), summed_up
        )

    unbegun = Position(group, _SHARE, ("", -1), _AT_END if services.share.configs().begins_at_end(group) else None)

    def summed_up(response: summary.ReadShareGroupStateSummaryResponse) -> None:
        for result in response.results:
            topic = services.metadata.image.topic_by_id(result.topic_id)
            if topic is None:
                continue
            for one in result.partitions:
                place = (topic.name, one.partition)
                if not one.error_code and -1 not in (one.start_offset, one.delivery_complete_count):
                    found.append(Position(group, _SHARE, place, one.start_offset, one.delivery_complete_count))
                elif not one.error_code and one.start_offset == -1:
                    found.append(unbegun._replace(partition=place))
        done(None)

    services.coordinators.groups.submit(group, InitializedPartitions(group), _OWN_VERSION, ASKER, known)


# ---- families


def _families(limit: int, positions: Iterable[Position], ends: Ends, firsts: Ends) -> Steps[list[Metric]]:
    lags: list[Lag] = []
    of_groups: Counter[tuple[str, str]] = Counter()
    uncommitted: Counter[tuple[str, str]] = Counter()
    unknown = 0
    for position in positions:
        yield
        group = position.group, position.kind
        of_groups[group] += 0
        begin = position.offset if position.offset is not None else _offset(firsts, position)
        end = _offset(ends, position)
        if begin is None or end is None:
            unknown += 1
            continue
        lag = max(0, end - begin - position.done)
        lags.append(Lag(lag, position))
        of_groups[group] += lag
        if position.offset is None:
            uncommitted[group] += lag
    omitted = {"partition": max(0, len(lags) - limit), "group": max(0, len(of_groups) - limit)}
    return list(_samples(limit, lags, of_groups, uncommitted, omitted, unknown))


def _offset(offsets: Ends, position: Position) -> int | None:
    found = offsets.get(position.partition)
    return None if found is None or found.error else found.offset


def _samples(
    limit: int,
    lags: list[Lag],
    of_groups: Counter[tuple[str, str]],
    uncommitted: Counter[tuple[str, str]],
    omitted: dict[str, int],
    unknown: int,
) -> Iterator[Metric]:
    labels = ("group", "kind", "topic", "partition")
    each = GaugeMetricFamily("odradek_group_lag", "Lag of a group on a partition, in records.", labels=labels)
    for lag, (group, kind, (topic, index), *_) in heapq.nlargest(limit, lags, key=_by_lag):
        each.add_metric([group, kind, topic, str(index)], lag)
    sums = GaugeMetricFamily(
        "odradek_group_lag_sum", "Lag of a group on all partitions, in records.", labels=("group", "kind")
    )
    words = "The part of the lag in partitions without a commit, which count from their first record."
    parts = GaugeMetricFamily("odradek_group_lag_uncommitted", words, labels=("group", "kind"))
    for (group, kind), lag in of_groups.most_common(limit):
        sums.add_metric([group, kind], lag)
        if uncommitted[group, kind]:
            parts.add_metric([group, kind], uncommitted[group, kind])
    words = f"Partitions and groups without a sample of their own, because there are more than {LIMIT_KEY}."
    left_out = GaugeMetricFamily("odradek_group_lag_omitted", words, labels=("of",))
    for what, count in omitted.items():
        left_out.add_metric([what], count)
    words = "Partitions of groups with an unknown end: they have no leader, or it did not respond in time."
    yield from (each, sums, parts, left_out, GaugeMetricFamily("odradek_group_lag_unknown", words, value=unknown))
