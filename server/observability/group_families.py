"""Metrics of groups: their number by state, and the work of their coordinators on this broker.

Kafka counts the work of its operators' plugin for topology descriptions (KIP-1331). Odradek keeps descriptions with
their group. Returning or deleting a description thus cannot fail and needs no cleanup, so there are no counters for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...coordinator.groups.classic.group import State
from ...coordinator.groups.consumer.group import GroupState as ConsumerGroupState
from ...coordinator.groups.kinds import KINDS
from ...coordinator.groups.share.group import GroupState as ShareGroupState
from ...coordinator.groups.streams.group import GroupState as StreamsGroupState
from ...coordinator.share_partition.partition import AckType

if TYPE_CHECKING:
    from ..services import Services
    from ..share.share_partitions import SharePartitions


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
