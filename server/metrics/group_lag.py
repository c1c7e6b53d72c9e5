"""Lag of the groups that this broker coordinates, of every kind: how many records each has not done with.

For classic, consumer and streams groups, the lag of a partition is its high watermark less the committed offset. For
share groups it is the high watermark less the start offset and less what is delivered above it (KIP-1226). The leaders
of partitions on other brokers get a request with each scrape; a partition whose end does not come in time has no sample
and is counted.

The number of series is bounded by `odradek.metrics.lag.series`, for partitions and for groups each. The largest lags
are shown, and what is left out is counted.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric

from ...coordinator.groups.share.offset_requests import InitializedPartitions, KnownPartitions
from ...metadata.image import TopicPartition
from ...protocol.messages import read_share_group_state_summary as summary
from ..coordinators.persister import ASKER
from ..runtime.gather import gather
from ..runtime.sliced_work import Steps, in_slices

if TYPE_CHECKING:
    from ..services import Services
    from ..share.latest_offsets import Ends

LIMIT_KEY = "odradek.metrics.lag.series"
#: A scrape waits no longer for coordinators and leaders on other brokers.
WAIT_S = 1.0
_CLASSIC = "classic"
_SHARE = "share"
_OWN_VERSION = 0


class Position(NamedTuple):
    """How far a group is in a partition; `done` counts records above `offset` that it is done with, too."""

    group: str
    kind: str
    partition: TopicPartition
    offset: int
    done: int = 0


class Lag(NamedTuple):
    """The lag of a position."""

    lag: int
    at: Position


async def group_lag(services: Services) -> list[Metric]:
    """Returns the families of lag, now."""
    positions, share_groups = await in_slices(_committed(services))
    positions += await _within(partial(_of_share_groups, services, share_groups), [])
    ends = await _within(partial(services.latest_offsets().look_up, {one.partition for one in positions}), {})
    return await in_slices(_families(services.config.get(LIMIT_KEY), positions, ends))


async def _within(ask: Callable[[Callable[[Any], None]], None], otherwise: Any) -> Any:
    """Returns what `ask` passes to its callback, or `otherwise` when that takes too long."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    ask(lambda answer: None if answered.done() else answered.set_result(answer))
    try:
        return await asyncio.wait_for(answered, WAIT_S)
    except TimeoutError:
        return otherwise


# ---- positions


def _committed(services: Services) -> Steps[tuple[list[Position], list[str]]]:
    """Positions of groups with committed offsets, and the ids of share groups, which have none."""
    found: list[Position] = []
    share_groups: list[str] = []
    for driver in services.groups.shards():
        if driver.shard is None:
            continue
        groups = driver.shard.state.groups
        share_groups += [group_id for group_id, group in groups.items() if group.kind == _SHARE]
        for group_id, topics in list(driver.shard.state.offsets.groups()):
            kind = groups[group_id].kind if group_id in groups else _CLASSIC
            for topic, partitions in list(topics.items()):
                yield
                found += [
                    Position(group_id, kind, (topic, index), committed.offset)
                    for index, committed in partitions.items()
                ]
    return found, share_groups


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
        services.persister().ask(summary.ReadShareGroupStateSummaryRequest(group_id=group, topics=topics), summed_up)

    def summed_up(response: summary.ReadShareGroupStateSummaryResponse) -> None:
        for result in response.results:
            topic = services.metadata.image.topic_by_id(result.topic_id)
            if topic is None:
                continue
            for one in result.partitions:
                if not one.error_code and -1 not in (one.start_offset, one.delivery_complete_count):
                    place = (topic.name, one.partition)
                    found.append(Position(group, _SHARE, place, one.start_offset, one.delivery_complete_count))
        done(None)

    services.groups.submit(group, InitializedPartitions(group), _OWN_VERSION, ASKER, known)


# ---- families


def _families(limit: int, positions: Iterable[Position], ends: Ends) -> Steps[list[Metric]]:
    lags: list[Lag] = []
    of_groups: Counter[tuple[str, str]] = Counter()
    unknown = 0
    for position in positions:
        yield
        end = ends.get(position.partition)
        of_groups[position.group, position.kind] += 0
        if end is None or end.error:
            unknown += 1
            continue
        lag = max(0, end.offset - position.offset - position.done)
        lags.append(Lag(lag, position))
        of_groups[position.group, position.kind] += lag
    omitted = {"partition": max(0, len(lags) - limit), "group": max(0, len(of_groups) - limit)}
    return list(_samples(limit, lags, of_groups, omitted, unknown))


def _samples(
    limit: int, lags: list[Lag], of_groups: Counter[tuple[str, str]], omitted: dict[str, int], unknown: int
) -> Iterator[Metric]:
    labels = ("group", "kind", "topic", "partition")
    each = GaugeMetricFamily("odradek_group_lag", "Lag of a group on a partition, in records.", labels=labels)
    for lag, (group, kind, (topic, index), *_) in heapq.nlargest(limit, lags):
        each.add_metric([group, kind, topic, str(index)], lag)
    sums = GaugeMetricFamily(
        "odradek_group_lag_sum", "Lag of a group on all partitions, in records.", labels=("group", "kind")
    )
    for (group, kind), lag in of_groups.most_common(limit):
        sums.add_metric([group, kind], lag)
    words = f"Partitions and groups without a sample of their own, because there are more than {LIMIT_KEY}."
    left_out = GaugeMetricFamily("odradek_group_lag_omitted", words, labels=("of",))
    for what, count in omitted.items():
        left_out.add_metric([what], count)
    words = "Partitions with committed offsets and unknown end: they have no leader, or it did not respond in time."
    yield from (each, sums, left_out, GaugeMetricFamily("odradek_group_lag_unknown", words, value=unknown))
