"""Metrics of share groups (KIP-932, KIP-1103), of their state, and of their dead-letter records (KIP-1191).

A broker without share groups creates none of this for a scrape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...coordinator.share_partition import AckType

if TYPE_CHECKING:
    from ..services import Services
    from ..share.share_partitions import SharePartitions

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
