"""Lag of the groups that this broker coordinates, of every kind.

The lag of a position is that of `odradek.admin.lag`. A group whose members subscribe to topics has all partitions
of each topic that its members read or that has a commit of it; those without a commit have no sample, and are
counted. The leaders of partitions on other brokers get a request with each scrape; a partition whose end does not
come in time has no sample and is counted.

The number of series is bounded by `odradek.metrics.lag.series`, for partitions and for groups each. The largest
lags are shown, and what is left out is counted.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard, TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric

from ...admin.lag import GroupProgress, Log, lag_of
from ...admin.markers import note_gap
from ...coordinator.groups.share.persister_requests import INTERNAL_VERSION, InitializedPartitions
from ...protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from ...protocol.messages.share_state_reads import ReadStateData, ReadStatePartition
from ..coordinators.persister_requests import ASKER
from ..coordinators.scatter_and_gather import gather
from ..runtime.sliced_work import in_slices
from .remote_records_ends import remote_records_ends

if TYPE_CHECKING:
    from ...admin.markers import Gap
    from ...coordinator.groups.committed_offsets import CommittedOffset
    from ...coordinator.groups.group import Group
    from ...coordinator.groups.share.persister_requests import KnownPartitions
    from ...metadata.image import MetadataImage, TopicPartition
    from ...protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryResponse
    from ...protocol.schema import ResponseCallback
    from ..runtime.sliced_work import Steps
    from ..services import Services
    from ..share.latest_offsets import Ends
    from .local_records_ends import LocalRecordsEnds, RecordsEnds

T = TypeVar("T")
LIMIT_KEY: Final = "odradek.metrics.lag.series"
#: A scrape waits no longer for coordinators, for leaders on other brokers, and for the disk.
WAIT_S = 1.0
_CLASSIC = "classic"
_SHARE = "share"
#: Protocol types of groups that assign whole topics to their members; groups with another type only commit.
_SUBSCRIBING = ("consumer", "streams")


class GroupPosition(NamedTuple):
    """How far a group is in a partition."""

    group: str
    kind: str
    place: TopicPartition
    position: GroupProgress


def _by_lag(lag_and_position: tuple[int, GroupPosition]) -> tuple[int, str, TopicPartition]:
    lag, at = lag_and_position
    return lag, at.group, at.place


async def group_lag(services: Services, local: LocalRecordsEnds) -> list[Metric]:
    """Returns the families of lag, now."""
    positions, share_groups = await in_slices(_committed(services))
    positions += await _within(partial(_of_share_groups, services, share_groups), [])
    look_up = services.share.latest_offsets().look_up
    begun = {one.place for one in positions if one.position.offset is not None}
    ends: Ends = await _within(partial(look_up, begun), {})
    gaps = await in_slices(_gaps(positions, ends))
    records_ends, cold = await local.cached(services.partitions.hosted, gaps)
    records_ends |= await _within(partial(local.read, cold), {})
    if gaps.keys() - records_ends:
        records_ends |= await _within(partial(remote_records_ends, services, gaps), {})
    logs = partial(_log, services.metadata.image, ends, records_ends)
    return await in_slices(_families(services.config.get(LIMIT_KEY), positions, logs))


async def _within(ask: Callable[[ResponseCallback], None], otherwise: T) -> T:
    """Returns what `ask` passes to its callback, or `otherwise` when that takes too long."""
    answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    ask(lambda response: None if answered.done() else answered.set_result(response))
    try:
        return await asyncio.wait_for(answered, WAIT_S)
    except TimeoutError:
        return otherwise


def _committed(services: Services) -> Steps[tuple[list[GroupPosition], list[str]]]:
    """Positions of groups that commit offsets, and the ids of share groups, which commit none."""
    found: list[GroupPosition] = []
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
    services: Services, group_id: str, group: Group | None, topic: str, committed: Mapping[int, CommittedOffset]
) -> Iterator[GroupPosition]:
    kind = group.kind if group is not None else _CLASSIC
    for index, one in committed.items():
        yield GroupPosition(group_id, kind, (topic, index), GroupProgress(one.offset))
    known = services.metadata.image.topic(topic)
    if _subscribes(group) and known is not None:
        for index in known.partitions:
            if index not in committed:
                yield GroupPosition(group_id, kind, (topic, index), GroupProgress(None))


def _of_share_groups(services: Services, groups: list[str], done: Callable[[list[GroupPosition]], None]) -> None:
    """`done` gets the positions of share groups, from their persister."""
    found: list[GroupPosition] = []
    limited = groups[: services.config.get(LIMIT_KEY)]
    gather([partial(_of_share_group, services, group, found) for group in limited], lambda _: done(found))


def _of_share_group(
    services: Services, group: str, positions: list[GroupPosition], done: Callable[[None], None]
) -> None:
    def known(known_partitions: KnownPartitions) -> None:
        topics = [
            ReadStateData(
                topic_id=topic_id, partitions=[ReadStatePartition(partition=index) for index in sorted(indexes)]
            )
            for topic_id, indexes in known_partitions.partitions.items()
            if services.metadata.image.topic_by_id(topic_id) is not None
        ]
        if known_partitions.error or not topics:
            done(None)
            return
        services.share.persister().ask(ReadShareGroupStateSummaryRequest(group_id=group, topics=topics), summed_up)

    def summed_up(response: ReadShareGroupStateSummaryResponse) -> None:
        for result in response.results:
            topic = services.metadata.image.topic_by_id(result.topic_id)
            if topic is None:
                continue
            for one in result.partitions:
                place = (topic.name, one.partition)
                if not one.error_code and one.start_offset == -1:
                    positions.append(GroupPosition(group, _SHARE, place, GroupProgress(None)))
                elif not one.error_code and one.delivery_complete_count != -1:
                    position = GroupProgress(one.start_offset, delivered=one.delivery_complete_count)
                    positions.append(GroupPosition(group, _SHARE, place, position))
        done(None)

    services.coordinators.groups.submit(group, InitializedPartitions(group), INTERNAL_VERSION, ASKER, known)


def _gaps(positions: Iterable[GroupPosition], ends: Ends) -> Steps[dict[TopicPartition, Gap]]:
    """The ends of logs that may be markers alone."""
    known = {place: end.offset for place, end in ends.items() if not end.error}
    found: dict[TopicPartition, Gap] = {}
    for at in positions:
        yield
        if at.kind != _SHARE:
            note_gap(found, at.place, at.position, known)
    return found


def _families(
    limit: int, positions: Iterable[GroupPosition], logs: Callable[[TopicPartition], Log]
) -> Steps[list[Metric]]:
    lags: list[tuple[int, GroupPosition]] = []
    of_groups: Counter[tuple[str, str]] = Counter()
    uncommitted: Counter[tuple[str, str]] = Counter()
    unknown = 0
    for at in positions:
        yield
        group = at.group, at.kind
        found = lag_of(at.place, at.position, logs(at.place))
        uncommitted[group] += found.is_uncommitted
        unknown += found.is_unknown
        if found.lag is not None:
            lags.append((found.lag, at))
            of_groups[group] += found.lag
    omitted = {"partition": max(0, len(lags) - limit), "group": max(0, len(of_groups) - limit)}
    return list(_samples(limit, lags, of_groups, uncommitted, omitted, unknown))


def _log(image: MetadataImage, ends: Ends, records_ends: RecordsEnds, place: TopicPartition) -> Log:
    found = ends.get(place)
    end = None if found is None or found.error else found.offset
    return Log(end, records_end=records_ends.get(place), is_deleted=image.topic(place[0]) is None)


def _samples(
    limit: int,
    lags: list[tuple[int, GroupPosition]],
    of_groups: Counter[tuple[str, str]],
    uncommitted: Counter[tuple[str, str]],
    omitted: dict[str, int],
    unknown: int,
) -> Iterator[Metric]:
    labels = ("group", "kind", "topic", "partition")
    words = "Lag of a group on a partition that it has committed an offset in, in records."
    each = GaugeMetricFamily("odradek_group_lag", words, labels=labels)
    for lag, (group, kind, (topic, index), _) in heapq.nlargest(limit, lags, key=_by_lag):
        each.add_metric([group, kind, topic, str(index)], lag)
    words = "Lag of a group on all partitions that it has committed an offset in, in records."
    sums = GaugeMetricFamily("odradek_group_lag_sum", words, labels=("group", "kind"))
    for (group, kind), lag in of_groups.most_common(limit):
        sums.add_metric([group, kind], lag)
    words = "Partitions that a group reads and has no commit in. They have no lag."
    without = GaugeMetricFamily("odradek_group_lag_uncommitted", words, labels=("group", "kind"))
    for (group, kind), count in uncommitted.most_common(limit):
        if count:
            without.add_metric([group, kind], count)
    words = f"Partitions and groups without a sample of their own, because there are more than {LIMIT_KEY}."
    left_out = GaugeMetricFamily("odradek_group_lag_omitted", words, labels=("of",))
    for what, count in omitted.items():
        left_out.add_metric([what], count)
    words = "Partitions of groups with an unknown end: they have no leader, or it did not respond in time."
    yield from (each, sums, without, left_out, GaugeMetricFamily("odradek_group_lag_unknown", words, value=unknown))
