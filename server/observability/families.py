"""The metrics of a scrape: the broker's counters, and gauges computed from its state.

The names are those of Kafka's own metrics, as the usual configuration of Prometheus' JMX exporter makes them:
kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec becomes kafka_server_brokertopicmetrics_bytesin_total. Imported
only when metrics are served.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...protocol.errors import ErrorCode
from ..runtime.counters import Times
from ..runtime.turn_budget import TURN_BUDGET_S
from ..services import Services
from .authorization_families import authorization
from .cluster_families import cluster, quorum
from .damage_families import damage
from .descriptor_families import descriptors
from .group_families import groups
from .login_families import authentications
from .mirror_families import mirrors
from .remote_families import tiered_storage
from .share_families import share
from .telemetry_families import telemetry

if TYPE_CHECKING:
    from ..partitions.hosted_partition import HostedPartition
    from ..runtime.counters import TopicMetrics
    from ..services import NodeServices

#: Kafka's number for a broker that serves.
_RUNNING = 3
_QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)

_TOPIC_COUNTERS = {
    "bytesin": ("bytes_in", "Bytes that producers appended."),
    "bytesout": ("bytes_out", "Bytes that consumers fetched."),
    "bytesrejected": ("bytes_rejected", "Bytes of batches that were rejected because of their size."),
    "messagesin": ("messages_in", "Records that producers appended."),
    "failedproducerequests": ("failed_produces", "Partitions of Produce requests that failed."),
    "totalfetchrequests": ("fetches", "Partitions of Fetch requests."),
    "failedfetchrequests": ("failed_fetches", "Partitions of Fetch requests that failed."),
    "totalsharefetchrequests": ("share_fetches", "ShareFetch requests."),
    "failedsharefetchrequests": ("failed_share_fetches", "ShareFetch requests with an error for the topic."),
    "totalshareacknowledgementrequests": ("share_acknowledgements", "Requests to acknowledge records."),
    "failedshareacknowledgementrequests": (
        "failed_share_acknowledgements",
        "Requests to acknowledge records that failed.",
    ),
    "invalidmessagecrcrecords": ("invalid_crc", "Batches rejected because of a wrong CRC or format."),
    "invalidoffsetorsequencerecords": ("invalid_sequence", "Batches rejected because of a wrong sequence number."),
}

_REPLICA_WORDS = {
    "partitioncount": "Replicas on this broker.",
    "leadercount": "Partitions that this broker leads.",
    "offlinereplicacount": "Replicas on this broker in failed log directories.",
    "underreplicatedpartitions": "Under-replicated partitions that this broker leads.",
    "underminisrpartitioncount": "Partitions that this broker leads with an ISR smaller than min.insync.replicas.",
    "atminisrpartitioncount": "Partitions that this broker leads with an ISR of exactly min.insync.replicas.",
    "reassigningpartitions": "Partitions that this broker leads and that are being reassigned.",
}


def families(services: NodeServices) -> Iterator[Metric]:
    """Every metric of a broker, now."""
    yield from _topics(services)
    yield from _requests(services)
    yield from _turns(services)
    yield from _background(services)
    yield from _pools(services)
    yield from _connections(services)
    yield from descriptors(services)
    yield from authentications(services)
    yield from authorization(services)
    yield from cluster(services)
    yield from quorum(services)
    if not isinstance(services, Services):  # a mere controller
        return
    yield from _replicas(services)
    yield from _logs(services)
    yield from damage(services)
    yield from groups(services)
    yield from share(services)
    yield from telemetry(services)
    state = _RUNNING if services.controller.lifecycle is None else services.controller.lifecycle.state.value
    yield _gauge("kafka_server_kafkaserver_brokerstate", "State of the broker: 3 is running.", state)
    yield from _fetch_sessions(services)
    yield from _remote(services)
    if services.mirror.made is not None:
        yield from mirrors(services.mirror.made, services.clock.now_ms())


def _remote(services: Services) -> Iterator[Metric]:
    if services.partitions.hosted.remote is None:
        return
    from ..remote.subsystem import RemoteSubsystem

    assert isinstance(services.partitions.hosted.remote, RemoteSubsystem), "there is one tiered storage"
    yield from tiered_storage(services.partitions.hosted.remote)


def _fetch_sessions(services: Services) -> Iterator[Metric]:
    cache = "kafka_server_fetchsessioncache"
    sessions, partitions = len(services.fetch.sessions), services.fetch.sessions.partition_count
    yield _gauge(f"{cache}_numincrementalfetchsessions", "Incremental fetch sessions (KIP-227).", sessions)
    yield _gauge(
        f"{cache}_numincrementalfetchpartitionscached", "Partitions in incremental fetch sessions.", partitions
    )
    evictions = CounterMetricFamily(
        f"{cache}_incrementalfetchsessionevictions", "Incremental fetch sessions evicted from a full cache."
    )
    evictions.add_metric([], services.fetch.sessions.evictions)
    yield evictions


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=value)


def _topics(services: NodeServices) -> Iterator[Metric]:
    """A sample per topic, and one without a topic for all of them, those included that were deleted."""
    everything = services.node.metrics.all_topics()
    topics = services.node.metrics.topics()
    for name, (counter, words) in _TOPIC_COUNTERS.items():
        yield _topic_counter(name, words, topics, everything, (counter,))
    produces = ("produces", "failed_produces")
    yield _topic_counter("totalproducerequests", "Partitions of Produce requests.", topics, everything, produces)


def _topic_counter(
    name: str, words: str, topics: dict[str, TopicMetrics], everything: TopicMetrics, counters: tuple[str, ...]
) -> Metric:
    family = CounterMetricFamily(f"kafka_server_brokertopicmetrics_{name}", words)

    def total(metrics: TopicMetrics) -> int:
        return sum(getattr(metrics, counter) for counter in counters)

    family.add_sample(f"{family.name}_total", {}, total(everything))
    for topic, metrics in topics.items():
        family.add_sample(f"{family.name}_total", {"topic": topic}, total(metrics))
    return family


def _requests(services: NodeServices) -> Iterator[Metric]:
    counts = CounterMetricFamily(
        "kafka_network_requestmetrics_requests", "Requests received.", labels=("request", "version")
    )
    bugs = CounterMetricFamily(
        "kafka_network_requestmetrics_errors", "Requests that failed because of a bug.", labels=("request", "error")
    )
    times: dict[str, Times] = {}
    failed: Counter[str] = Counter()
    for dispatcher in {listener.dispatcher for listener in services.network.listeners}:
        for route in dispatcher.routes():
            counts.add_metric([route.api.name, str(route.version)], route.requests)
            times.setdefault(route.api.name, Times()).include(route.times)
            failed[route.api.name] += route.failures
    for api, count in failed.items():
        bugs.add_metric([api, ErrorCode.UNKNOWN_SERVER_ERROR.name], count)
    yield counts
    yield bugs
    yield _request_times(times)


def _background(services: NodeServices) -> Iterator[Metric]:
    """Failures of background work (runtime/background_tasks.py)."""
    background = services.node.background
    words = "Failed attempts of background work since the start; each is tried again."
    failures = CounterMetricFamily("odradek_background_failures", words, labels=("task",))
    failing = GaugeMetricFamily(
        "odradek_background_failing", "1 where the last attempt of background work failed.", labels=("task",)
    )
    for task in background.failures or ("",):
        failures.add_metric([task], background.failures.get(task, 0))
        failing.add_metric([task], int(task in background.failing))
    yield from (failures, failing)


def _turns(services: NodeServices) -> Iterator[Metric]:
    """Turns of the event loop over their budget (runtime/turn_budget.py)."""
    watch = services.node.turn_watch
    words = "Iterations of the event loop that took longer than the time budget, by API of the request."
    family = CounterMetricFamily("odradek_loop_long_turns", words, labels=("request",))
    for api in services.node.turn_watch.counts or ("",):
        family.add_metric([api], watch.counts.get(api, 0))
    yield family
    yield _gauge(
        "odradek_loop_longest_turn_seconds", "The longest iteration over the time budget, in seconds.", watch.longest_s
    )
    yield _gauge(
        "odradek_loop_turn_budget_seconds",
        "The time budget of an iteration of the event loop, in seconds.",
        TURN_BUDGET_S,
    )


def _pools(services: NodeServices) -> Iterator[Metric]:
    labels = ("pool",)
    threads = GaugeMetricFamily("odradek_pool_threads", "Largest number of threads of the pool.", labels=labels)
    active = GaugeMetricFamily("odradek_pool_active", "Tasks that run in the pool.", labels=labels)
    queued = GaugeMetricFamily("odradek_pool_queued", "Tasks that wait for a thread of the pool.", labels=labels)
    tasks = CounterMetricFamily("odradek_pool_tasks", "Tasks that the pool has completed.", labels=labels)
    for pool in services.node.pools:
        threads.add_metric([pool.name], pool.size)
        active.add_metric([pool.name], pool.active)
        queued.add_metric([pool.name], pool.queued)
        tasks.add_metric([pool.name], pool.completed)
    yield from (threads, active, queued, tasks)


def _request_times(times: dict[str, Times]) -> Metric:
    name = "kafka_network_requestmetrics_totaltimems"
    words = "Milliseconds from receiving a request to sending its response, sampled for one request in 64."
    family = Metric(name, words, "summary")
    for api, taken in times.items():
        for quantile in _QUANTILES if taken.count else ():
            labels = {"request": api, "quantile": str(quantile)}
            family.add_sample(name, labels, taken.quantile_ms(quantile))
        family.add_sample(f"{name}_count", {"request": api}, taken.count)
        family.add_sample(f"{name}_sum", {"request": api}, taken.total_ns / 1e6)
    return family


def _connections(services: NodeServices) -> Iterator[Metric]:
    name = "kafka_server_socket_server_metrics_connection_count"
    family = GaugeMetricFamily(name, "Open connections.", labels=("listener",))
    for listener in services.network.listeners:
        family.add_metric([listener.name], len(listener.connections))
    yield family


def _replicas(services: Services) -> Iterator[Metric]:
    hosted = list(services.partitions.hosted)
    led = [partition for partition in hosted if partition.is_leader]
    counts = {
        "partitioncount": len(hosted),
        "leadercount": len(led),
        "offlinereplicacount": sum(partition.offline for partition in hosted),
        "underreplicatedpartitions": sum(len(p.role.isr) < len(p.role.replicas) for p in led),
        "underminisrpartitioncount": sum(len(p.role.isr) < _min_isr(p) for p in led),
        "atminisrpartitioncount": sum(len(p.role.isr) == _min_isr(p) for p in led),
        "reassigningpartitions": _reassigning(services, led),
    }
    for name, count in counts.items():
        yield _gauge(f"kafka_server_replicamanager_{name}", _REPLICA_WORDS[name], count)


def _min_isr(partition: HostedPartition) -> int:
    return partition.role.least_in_sync


def _reassigning(services: NodeServices, led: Iterable[HostedPartition]) -> int:
    count = 0
    for partition in led:
        topic = services.metadata.image.topics.by_name.get(partition.topic)
        registration = topic.partitions.get(partition.index) if topic is not None else None
        count += registration is not None and registration.is_reassigning
    return count


def _logs(services: Services) -> Iterator[Metric]:
    labels = ("topic", "partition")
    size = GaugeMetricFamily("kafka_log_log_size", "Bytes of a partition's segments.", labels=labels)
    segments = GaugeMetricFamily("kafka_log_log_numlogsegments", "Segments of a partition.", labels=labels)
    start = GaugeMetricFamily("kafka_log_log_logstartoffset", "The log start offset of a partition.", labels=labels)
    end = GaugeMetricFamily("kafka_log_log_logendoffset", "The log end offset of a partition.", labels=labels)
    for partition in services.partitions.hosted:
        if partition.offline:
            continue
        of = [partition.topic, str(partition.index)]
        log = partition.log
        size.add_metric(of, log.size)
        segments.add_metric(of, log.segment_count)
        start.add_metric(of, log.log_start_offset)
        end.add_metric(of, log.log_end_offset)
    yield from (size, segments, start, end)
    words = "Poisoned batches, which no consumer can read, at the last compaction or verification."
    poisoned = GaugeMetricFamily("odradek_log_poisoned_batches", words, labels=labels)
    for (topic, index), met in services.replicas.cleaner.poisoned.items():
        poisoned.add_metric([topic, str(index)], len(met))
    yield poisoned
    offline = sum(not directory.is_online for directory in services.directories)
    yield _gauge("kafka_log_logmanager_offlinelogdirectorycount", "Log directories that failed.", offline)
