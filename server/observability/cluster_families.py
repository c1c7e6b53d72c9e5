"""Metrics of the cluster: brokers, leaders, elections, and the controller quorum.

Metrics that Kafka does not have are named odradek_.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from ...admin.quorum import lag_behind
from ...metadata.image import NO_LEADER
from ...replication.quorum.roles import Leader
from ..services import Services

if TYPE_CHECKING:
    from ..services import NodeServices


def cluster(services: NodeServices) -> Iterator[Metric]:
    image = services.metadata.image
    partitions = [p for topic in image.topics.by_name.values() for p in topic.partitions.values()]
    brokers = image.cluster.brokers.values()
    counts = {
        "activecontrollercount": (
            services.controller.driver.is_active,
            "1 on the active controller, 0 on all other nodes.",
        ),
        "activebrokercount": (sum(not b.fenced for b in brokers), "Brokers that are registered and not fenced."),
        "fencedbrokercount": (sum(b.fenced for b in brokers), "Brokers that are registered and fenced."),
        "controlledshutdownbrokercount": (
            sum(b.in_controlled_shutdown and not b.fenced for b in brokers),
            "Brokers in controlled shutdown.",
        ),
        "globaltopiccount": (len(image.topics.by_name), "Topics."),
        "globalpartitioncount": (len(partitions), "Partitions."),
        "offlinepartitionscount": (sum(p.leader == NO_LEADER for p in partitions), "Partitions without a leader."),
        "preferredreplicaimbalancecount": (
            sum(p.leader != p.preferred_replica for p in partitions),
            "Partitions that are not led by their preferred replica.",
        ),
        "lastappliedrecordoffset": (image.offset, "The offset of the last metadata record that was applied."),
    }
    for name, (count, words) in counts.items():
        yield GaugeMetricFamily(f"kafka_controller_kafkacontroller_{name}", words, value=int(count))
    yield from _elections(services)
    yield from _in_sync_changes(services)


def _elections(services: NodeServices) -> Iterator[Metric]:
    """Metrics of leader elections by this node since it became the active controller."""
    if services.controller.driver.is_active:
        elections = services.controller.driver.controller.elections
        yield _counter("odradek_leader_elections", "Leader elections of partitions.", elections.leaders)
        unclean = "kafka_controller_controllerstats_uncleanleaderelections"
        yield _counter(unclean, "Unclean leader elections of partitions.", elections.unclean)
    if services.controller.sessions is not None:
        expired = "kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount"
        words = "Brokers fenced because they sent no heartbeat."
        yield GaugeMetricFamily(expired, words, value=services.controller.sessions.expired_sessions)
        gone = "Brokers fenced because their process had ended."
        yield _counter("odradek_brokers_gone", gone, services.controller.sessions.rejected_brokers)


def _in_sync_changes(services: NodeServices) -> Iterator[Metric]:
    replication = services.replicas.replication.made if isinstance(services, Services) else None
    changes = replication.isr_changes if replication is not None else None
    name = "kafka_server_replicamanager"
    yield _counter(f"{name}_isrshrinks", "Removals of replicas from the ISR.", changes.shrinks if changes else 0)
    yield _counter(f"{name}_isrexpands", "Additions of replicas to the ISR.", changes.expands if changes else 0)


def _counter(name: str, words: str, value: float) -> Metric:
    return CounterMetricFamily(name, words, value=value)


def quorum(services: NodeServices) -> Iterator[Metric]:
    controller = services.controller.driver
    values = {
        "current_leader": controller.leader_id,
        "current_epoch": controller.epoch,
        "high_watermark": controller.high_watermark,
        "log_end_offset": controller.quorum_log.end_offset,
    }
    for name, value in values.items():
        yield GaugeMetricFamily(
            f"kafka_server_raft_metrics_{name}", f"The {name.replace('_', ' ')} of the metadata quorum.", value=value
        )
    applied = "kafka_server_broker_metadata_metrics_last_applied_record_offset"
    yield GaugeMetricFamily(
        applied, "The offset of the last metadata record that was applied.", value=services.metadata.image.offset
    )
    yield from _lag(services)
    if controller.raft is not None:
        waits = controller.leaderless
        yield SummaryMetricFamily(
            "odradek_quorum_leaderless_seconds",
            "Duration of each period without a known leader of the metadata quorum, in seconds.",
            count_value=waits.count,
            sum_value=waits.total_ns / 1e9,
        )


def _lag(services: NodeServices) -> Iterator[Metric]:
    """On the leader: how many offsets of the metadata log each of the others lacks."""
    raft = services.controller.driver.raft
    if raft is None or not isinstance(raft.replica.role, Leader):
        return
    words = "Offsets of the metadata log that this replica lacks."
    lag = GaugeMetricFamily("odradek_quorum_replica_lag", words, labels=("replica",))
    end = services.controller.driver.quorum_log.end_offset
    for key, progress in raft.replica.role.progress.items():
        lag.add_metric([str(key.id)], lag_behind(end, progress.end_offset) or 0)
    yield lag
