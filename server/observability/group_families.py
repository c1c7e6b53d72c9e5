"""Metrics of groups: their number by state, the work of their coordinators on this broker, and their lag.

- `groups`: groups of all kinds. Kafka counts the work of its operators' plugin for topology descriptions (KIP-1331).
  Odradek keeps descriptions with their group. Returning or deleting a description thus cannot fail and needs no
  cleanup, so there are no counters for it.
- `share`: share groups, their state and their dead-letter records.
- `group_lag`: how many records each group has not done with.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...coordinator.groups.classic.group import State
from ...coordinator.groups.consumer.group import GroupState as ConsumerGroupState
from ...coordinator.groups.kinds import KINDS
from ...coordinator.groups.share.group import GroupState as ShareGroupState
from ...coordinator.groups.share.offset_requests import InitializedPartitions, KnownPartitions
from ...coordinator.groups.streams.group import GroupState as StreamsGroupState
from ...coordinator.share_partition import AckType
from ...metadata.image import TopicPartition
from ...protocol.messages.share_group_state import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateData,
    ReadStatePartition,
)
from ..coordinators.shard_driver import gather
from ..coordinators.share_state_driver import ASKER
from ..runtime.sliced_work import Steps, in_slices
from ..share.share_groups import EARLIEST, Ends

if TYPE_CHECKING:
    from ...coordinator.groups.state import Group
    from ...protocol.schema import ResponseCallback
    from ..services import Services
    from ..share.share_partitions import SharePartitions


# ---- groups

_OF_COORDINATOR = "kafka_server_group_coordinator_metrics_"
_OF_GROUPS = "kafka_coordinator_group_groupmetadatamanager_num"

_STATES: dict[str, tuple[type[Enum], str]] = {
    "classic": (State, "Classic groups by state."),
    "consumer": (ConsumerGroupState, "Groups of the consumer protocol (KIP-848) by state."),
    "share": (ShareGroupState, "Share groups (KIP-932) by state."),
    "streams": (StreamsGroupState, "Groups of the streams protocol (KIP-1071) by state."),
}
#: The counters have Kafka's names, which do not end as Prometheus has it.
_COUNTERS = {
    "offset_commit_count": ("offset_commits", "Offsets that were committed."),
    "offset_deletion_count": ("offset_deletions", "Offsets that were deleted by requests."),
    "offset_expiration_count": ("offset_expirations", "Offsets that expired."),
    "group_completed_rebalance_count": ("classic_rebalances", "Completed rebalances of classic groups."),
    "consumer_group_rebalance_count": ("consumer_rebalances", "Rebalances of groups of the consumer protocol."),
    "share_group_rebalance_count": ("share_rebalances", "Rebalances of share groups."),
    "streams_group_rebalance_count": ("streams_rebalances", "Rebalances of groups of the streams protocol."),
    "streams_group_topology_description_set_success_count": (
        "descriptions_kept",
        "Topology descriptions that were stored.",
    ),
    "streams_group_topology_description_set_error_count": (
        "descriptions_rejected",
        "Topology descriptions that could not be stored.",
    ),
    "streams_group_topology_description_get_success_count": (
        "descriptions_reported",
        "Topology descriptions that were returned to clients.",
    ),
    "streams_group_topology_description_delete_success_count": (
        "descriptions_deleted",
        "Topology descriptions that were deleted.",
    ),
}


def groups(services: Services) -> Iterator[Metric]:
    # Kind and name of the state -> how many groups.
    counts: Counter[tuple[str, str]] = Counter()
    offsets = 0
    shards = services.coordinators.groups.shards()
    for driver in shards:
        if driver.shard is None:
            continue
        state = driver.shard.state
        counts.update((group.kind, group.state.value) for group in state.groups.values())
        offsets += sum(len(partitions) for _, topics in state.offsets.groups() for partitions in topics.values())
    yield from _classic(counts, offsets)
    yield from _by_kind(counts)
    for name, (counter, words) in _COUNTERS.items():
        yield _unknown(_OF_COORDINATOR + name, words, getattr(services.coordinators.groups.counters, counter))
    loading = sum(driver.shard is None for driver in shards)
    yield _by_state(f"{_OF_COORDINATOR}num_partitions", loading, len(shards) - loading)


def _classic(counts: Counter[tuple[str, str]], offsets: int) -> Iterator[Metric]:
    yield GaugeMetricFamily(f"{_OF_GROUPS}groups", "Groups that this broker coordinates.", value=sum(counts.values()))
    for state in State:
        words = f"Groups in the state {state.value}."
        count = counts["classic", state.value]
        yield GaugeMetricFamily(f"{_OF_GROUPS}groups{state.value.lower()}", words, value=count)
    for name in (f"{_OF_GROUPS}offsets", f"{_OF_COORDINATOR}offset_count"):
        yield GaugeMetricFamily(name, "Committed offsets that this broker stores.", value=offsets)


def _by_kind(counts: Counter[tuple[str, str]]) -> Iterator[Metric]:
    family = GaugeMetricFamily(f"{_OF_COORDINATOR}group_count", "Groups by protocol.", labels=("protocol",))
    for kind in KINDS.by_name:
        family.add_metric([kind], sum(count for (its_kind, _), count in counts.items() if its_kind == kind))
    yield family
    for kind, (states, words) in _STATES.items():
        family = GaugeMetricFamily(f"{_OF_COORDINATOR}{kind}_group_count", words, labels=("state",))
        for state in states:
            family.add_metric([state.value], counts[kind, state.value])
        yield family


def _by_state(name: str, loading: int, active: int) -> Metric:
    family = GaugeMetricFamily(name, "Partitions of __consumer_offsets that this broker leads.", labels=("state",))
    family.add_metric(["loading"], loading)
    family.add_metric(["active"], active)
    return family


def _unknown(name: str, words: str, value: int) -> Metric:
    family = Metric(name, words, "unknown")
    family.add_sample(name, {}, value)
    return family


# ---- share groups
#
# Metrics of share groups (KIP-932, KIP-1103), of their state, and of their dead-letter records (KIP-1191).
#
# A broker without share groups creates none of this for a scrape.


_PREFIX = "kafka_server_sharegroupmetrics_"
_OF_PARTITIONS = "kafka_server_sharepartitionmetrics_"
_OF_PERSISTER = "kafka_server_share_coordinator_metrics_"
_DEAD_LETTERS = {
    "deadletterqueuerecordcount": ("records", "Dead-letter records written."),
    "deadletterqueuetotalproducerequests": ("produces", "Produce requests with dead-letter records."),
    "deadletterqueuefailedproducerequests": (
        "failed_produces",
        "Failed produce requests after which dead-letter records were dropped.",
    ),
}
_TYPES = (AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.RENEW)


def share(services: Services) -> Iterator[Metric]:
    yield from _dead_letters(services)
    sessions, partitions = services.share.sessions.made, services.share.partitions.made
    if sessions is not None:
        name = "kafka_server_sharesessioncache_"
        yield GaugeMetricFamily(f"{name}sharesessionscount", "Share sessions.", value=len(sessions))
        yield GaugeMetricFamily(
            f"{name}sharepartitionscount", "Partitions in share sessions.", value=sessions.partition_count
        )
    if partitions is not None:
        yield _acknowledgements(partitions)
        yield from _partitions(partitions)
    if services.share.states.made is not None:
        yield from _persister(services)


def _dead_letters(services: Services) -> Iterator[Metric]:
    """A sample per group that has had dead-letter records on this broker."""
    groups = services.share.dead_letters.made.counters if services.share.dead_letters.made is not None else {}
    for name, (counter, words) in _DEAD_LETTERS.items():
        family = CounterMetricFamily(_PREFIX + name, words, labels=("group",))
        for group_id, counters in groups.items():
            family.add_metric([group_id], getattr(counters, counter))
        yield family


def _acknowledgements(partitions: SharePartitions) -> Metric:
    words = "Records that members acknowledged, by type of acknowledgement."
    family = CounterMetricFamily(f"{_PREFIX}recordacknowledgements", words, labels=("ackType",))
    for kind in _TYPES:
        family.add_metric([kind.name.capitalize()], partitions.acknowledgements[kind])
    return family


def _partitions(share_partitions: SharePartitions) -> Iterator[Metric]:
    labels = ("group", "topic", "partition")
    records = GaugeMetricFamily(f"{_OF_PARTITIONS}inflightmessagecount", "Records in flight.", labels=labels)
    runs = GaugeMetricFamily(
        f"{_OF_PARTITIONS}inflightbatchcount", "Ranges of consecutive records in flight.", labels=labels
    )
    words = "Records whose acquisition lock has expired."
    timeouts = CounterMetricFamily(f"{_OF_PARTITIONS}acquisitionlocktimeout", words, labels=labels)
    for led in share_partitions:
        if led.state_machine is not None:
            of = [led.key.group_id, led.hosted.topic, str(led.hosted.index)]
            records.add_metric(of, led.state_machine.in_flight_count)
            runs.add_metric(of, len(led.state_machine.runs))
            timeouts.add_metric(of, led.state_machine.lock_timeouts)
    yield from (records, runs, timeouts)


def _persister(services: Services) -> Iterator[Metric]:
    states = services.share.states()
    written = Metric(f"{_OF_PERSISTER}write_total", "Requests to write states of share groups.", "unknown")
    written.add_sample(written.name, {}, states.counters.writes)
    yield written
    shards = states.shards()
    loading = sum(shard.shard is None for shard in shards)
    words = "Partitions of __share_group_state that this broker leads."
    family = GaugeMetricFamily(f"{_OF_PERSISTER}num_partitions", words, labels=("state",))
    family.add_metric(["loading"], loading)
    family.add_metric(["active"], len(shards) - loading)
    yield family


# ---- lag
#
# Lag of the groups that this broker coordinates, of every kind.
#
# For classic, consumer and streams groups, the lag of a partition is its high watermark less the committed offset. A
# group whose members subscribe to topics has all partitions of each topic that its members read or that has a commit
# of it. A partition without a commit counts from its first record: where a consumer begins is a setting of the
# client. For share groups it is the high watermark less the start offset and less what is delivered above it
# (KIP-1226). The leaders of partitions on other brokers get a request with each scrape; a partition whose end does
# not come in time has no sample and is counted.
#
# The number of series is bounded by `odradek.metrics.lag.series`, for partitions and for groups each. The largest
# lags are shown, and what is left out is counted.

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
    ask(lambda response: None if answered.done() else answered.set_result(response))
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
    def known(found: KnownPartitions) -> None:
        topics = [
            ReadStateData(
                topic_id=topic_id, partitions=[ReadStatePartition(partition=index) for index in sorted(indexes)]
            )
            for topic_id, indexes in found.partitions.items()
            if services.metadata.image.topic_by_id(topic_id) is not None
        ]
        if found.error or not topics:
            done(None)
            return
        services.share.persister().ask(ReadShareGroupStateSummaryRequest(group_id=group, topics=topics), summed_up)

    unbegun = Position(group, _SHARE, ("", -1), _AT_END if services.share.configs().begins_at_end(group) else None)

    def summed_up(response: ReadShareGroupStateSummaryResponse) -> None:
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
