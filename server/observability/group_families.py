"""Metrics of groups: their number by state, and the work of their coordinators on this broker.

Kafka counts the work of its operators' plugin for topology descriptions (KIP-1331). Odradek keeps descriptions with their
group. Returning or deleting a description thus cannot fail and needs no cleanup, so there are no counters for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric

from ...coordinator.groups.classic.group import ClassicGroupState
from ...coordinator.groups.consumer.group import ConsumerGroupState
from ...coordinator.groups.share.group import ShareGroupState
from ...coordinator.groups.streams.group import StreamsGroupState

if TYPE_CHECKING:
    from ..services import Services

_OF_COORDINATOR = "kafka_server_group_coordinator_metrics_"
_OF_GROUPS = "kafka_coordinator_group_groupmetadatamanager_num"

_STATES: dict[str, tuple[type[Enum], str]] = {
    "classic": (ClassicGroupState, "Classic groups by state."),
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
    yield from _by_kind(counts, services.coordinators.groups.kinds.by_name)
    for name, (counter, words) in _COUNTERS.items():
        yield _unknown(_OF_COORDINATOR + name, words, getattr(services.coordinators.groups.counters, counter))
    loading = sum(driver.shard is None for driver in shards)
    yield _by_state(f"{_OF_COORDINATOR}num_partitions", loading, len(shards) - loading)


def _classic(counts: Counter[tuple[str, str]], offsets: int) -> Iterator[Metric]:
    yield GaugeMetricFamily(f"{_OF_GROUPS}groups", "Groups that this broker coordinates.", value=sum(counts.values()))
    for state in ClassicGroupState:
        words = f"Groups in the state {state.value}."
        count = counts["classic", state.value]
        yield GaugeMetricFamily(f"{_OF_GROUPS}groups{state.value.lower()}", words, value=count)
    for name in (f"{_OF_GROUPS}offsets", f"{_OF_COORDINATOR}offset_count"):
        yield GaugeMetricFamily(name, "Committed offsets that this broker stores.", value=offsets)


def _by_kind(counts: Counter[tuple[str, str]], kinds: Iterable[str]) -> Iterator[Metric]:
    family = GaugeMetricFamily(f"{_OF_COORDINATOR}group_count", "Groups by protocol.", labels=("protocol",))
    for kind in kinds:
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
