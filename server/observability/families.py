"""The metrics of a scrape: the broker's counters, and gauges computed from its state.

The names are those of Kafka's own metrics, as the usual configuration of Prometheus' JMX exporter makes them:
kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec becomes kafka_server_brokertopicmetrics_bytesin_total. Imported
only when metrics are served.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from ...metadata.image import NO_LEADER
from ...protocol.errors import ErrorCode
from ...replication.quorum.roles import Leader
from ...storage.files.open_files import SPARES, OpenFile
from ..network.descriptors import DESCRIPTORS
from ..runtime.counters import Times, TopicMetrics
from ..runtime.sliced_work import TURN_BUDGET_S
from ..services import NodeServices, Services
from .group_families import groups, share

if TYPE_CHECKING:
    from ..access.authorization.authorization import Authorization
    from ..partitions.hosted_partition import HostedPartition
    from ..remote.subsystem import RemoteSubsystem


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


def _remote(services: Services) -> Iterator[Metric]:
    if services.partitions.hosted.remote is None:
        return
    from ..remote.subsystem import RemoteSubsystem

    assert isinstance(services.partitions.hosted.remote, RemoteSubsystem), "there is one tiered storage"
    yield from tiered_storage(services.partitions.hosted.remote)


def _fetch_sessions(services: Services) -> Iterator[Metric]:
    cache = "kafka_server_fetchsessioncache"
    sessions, partitions = len(services.data_path.sessions), services.data_path.sessions.partition_count
    yield _gauge(f"{cache}_numincrementalfetchsessions", "Incremental fetch sessions (KIP-227).", sessions)
    yield _gauge(
        f"{cache}_numincrementalfetchpartitionscached", "Partitions in incremental fetch sessions.", partitions
    )
    evictions = CounterMetricFamily(
        f"{cache}_incrementalfetchsessionevictions", "Incremental fetch sessions evicted from a full cache."
    )
    evictions.add_metric([], services.data_path.sessions.evictions)
    yield evictions


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=value)


def _topics(services: NodeServices) -> Iterator[Metric]:
    """A sample per topic, and one without a topic for all of them, those included that were deleted."""
    everything = services.metrics.all_topics()
    topics = services.metrics.topics()
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
    """Failures of background work (runtime/subsystem.py)."""
    background = services.background
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
    """Turns of the event loop over their budget (runtime/sliced_work.py)."""
    watch = services.turn_watch
    words = "Iterations of the event loop that took longer than the time budget, by API of the request."
    family = CounterMetricFamily("odradek_loop_long_turns", words, labels=("request",))
    for api in services.turn_watch.counts or ("",):
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
    for pool in services.pools:
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


_REPLICA_WORDS = {
    "partitioncount": "Replicas on this broker.",
    "leadercount": "Partitions that this broker leads.",
    "offlinereplicacount": "Replicas on this broker in failed log directories.",
    "underreplicatedpartitions": "Under-replicated partitions that this broker leads.",
    "underminisrpartitioncount": "Partitions that this broker leads with an ISR smaller than min.insync.replicas.",
    "atminisrpartitioncount": "Partitions that this broker leads with an ISR of exactly min.insync.replicas.",
    "reassigningpartitions": "Partitions that this broker leads and that are being reassigned.",
}


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


# Metrics of the cluster: brokers, leaders, elections, and the controller quorum.
#
# Metrics that Kafka does not have are named odradek_.


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
        lag.add_metric([str(key.id)], max(0, end - progress.end_offset))
    yield lag


# Metrics of damaged records, of the verification of logs and of healing from other replicas.


_COUNTERS = {
    "damage_ranges_found": ("ranges_found", "Damaged ranges that readers and the scrubber have found."),
    "damage_ranges_healed": ("ranges_healed", "Damaged ranges that were repaired from another replica."),
    "damage_bytes_healed": ("bytes_healed", "Bytes of records that were fetched for repairs."),
    "damage_healings_failed": ("healings_failed", "Failed attempts to repair a partition."),
    "damage_reads_refused": ("reads_rejected", "Reads of damaged records."),
    "damage_bad_fetches": (
        "bad_fetches",
        "Fetch responses of leaders with damaged records.",
    ),
    "damage_indexes_rebuilt": ("indexes_rebuilt", "Indexes that did not match their segment and were rebuilt."),
    "scrub_bytes": ("scrubbed_bytes", "Bytes of segments that were verified."),
    "scrub_segments": ("scrubbed_segments", "Segments that were verified."),
    "scrub_rounds": ("scrub_rounds", "Verifications of all segments."),
}


def damage(services: Services) -> Iterator[Metric]:
    for name, (counter, words) in _COUNTERS.items():
        yield CounterMetricFamily(f"odradek_{name}", words, value=getattr(services.damage, counter))
    yield GaugeMetricFamily(
        "odradek_scrub_last_round_time_seconds",
        "End of the last verification of all segments, in seconds since 1970; 0 before the first.",
        value=services.damage.last_round_ms / 1000,
    )
    yield GaugeMetricFamily(
        "odradek_scrub_last_round_duration_seconds",
        "Duration of the last verification of all segments, in seconds.",
        value=services.damage.last_round_took_ms / 1000,
    )
    yield from _ranges(services)


def _ranges(services: Services) -> Iterator[Metric]:
    """Metrics of present damage: a sample for each range, so that a scrape names its offsets too."""
    labels = ("topic", "partition")
    count = GaugeMetricFamily("odradek_damage_ranges", "Damaged ranges of a partition.", labels=labels)
    offsets = GaugeMetricFamily("odradek_damage_offsets", "Offsets of a partition that are damaged.", labels=labels)
    size = GaugeMetricFamily("odradek_damage_bytes", "Bytes of a partition's files that are damaged.", labels=labels)
    first = GaugeMetricFamily(
        "odradek_damage_first_offset",
        "The first offset of a damaged range. The label next_offset is the offset after the range.",
        labels=(*labels, "next_offset"),
    )
    for partition in services.partitions.hosted:
        damaged = partition.log.damage
        if partition.offline or not damaged:
            continue
        of = [partition.topic, str(partition.index)]
        ranges = list(damaged)
        count.add_metric(of, len(ranges))
        offsets.add_metric(of, sum(one.next_offset - one.first_offset for one in ranges))
        size.add_metric(of, sum(one.size for one in ranges))
        for one in ranges:
            first.add_metric([*of, str(one.next_offset)], one.first_offset)
    yield from (count, offsets, size, first)


# Metrics of the budget of descriptors: how many connections may still come, and how many were refused.
#
# Apache Kafka has no such metrics; the process's own `process_open_fds` and `process_max_fds` stand beside them.


def descriptors(services: NodeServices) -> Iterator[Metric]:
    remaining = GaugeMetricFamily(
        "odradek_network_connections_remaining",
        "Connections that the listener can accept before its file descriptors run out.",
        labels=("listener",),
    )
    rejected = CounterMetricFamily(
        "odradek_network_connections_refused",
        "Rejected connections, and idle connections that were closed to make room, by reason.",
        labels=("listener", "reason"),
    )
    for listener in services.network.listeners:
        remaining.add_metric([listener.name], DESCRIPTORS.remaining(listener.kind))
        for reason, count in listener.refused.items():
            rejected.add_metric([listener.name, reason], count)
    reserved = GaugeMetricFamily(
        "odradek_process_descriptors_reserved",
        "File descriptors reserved for other uses than connections, by use.",
        labels=("use",),
    )
    for use, count in DESCRIPTORS.shares._asdict().items():
        reserved.add_metric([use], count)
    yield from (remaining, rejected, reserved)
    limit = "odradek_process_descriptors_limit"
    yield GaugeMetricFamily(limit, "Limit of open file descriptors of the process.", value=DESCRIPTORS.limit)
    connections = "odradek_process_descriptors_connections"
    yield GaugeMetricFamily(connections, "File descriptors used by connections.", value=DESCRIPTORS.taken)
    files = "odradek_process_descriptors_data_files"
    yield GaugeMetricFamily(files, "Open data files.", value=OpenFile.count)
    shortages = CounterMetricFamily(
        "odradek_process_descriptors_shortages",
        "Files that were opened with a spare file descriptor because no other was left.",
    )
    shortages.add_metric([], SPARES.shortages)
    yield shortages


# Metrics of logins, by listener, under the names of Kafka's own (kafka.server:type=socket-server-metrics).


_PREFIX = "kafka_server_socket_server_metrics"


def authentications(services: NodeServices) -> Iterator[Metric]:
    """Nothing without a listener with SASL. Renewals of sessions count too."""
    with_sasl = [
        (listener.name, listener.sasl.outcomes) for listener in services.network.listeners if listener.sasl is not None
    ]
    if not with_sasl:
        return
    labels = ("listener",)
    successful = CounterMetricFamily(
        f"{_PREFIX}_successful_authentication", "Successful authentications of clients.", labels=labels
    )
    failed = CounterMetricFamily(f"{_PREFIX}_failed_authentication", "Failed authentications.", labels=labels)
    for name, outcomes in with_sasl:
        successful.add_metric([name], outcomes.successful)
        failed.add_metric([name], outcomes.failed)
    yield from (successful, failed)


# Metrics of the authorizer, under the names of Kafka's own (kafka.server:type=plugins,config=authorizer.class.name).


_RULES_PREFIX = "kafka_server_plugins"
#: Those of Kafka's MBean.
_LABELS = ("config", "class", "role")


def authorization(services: NodeServices) -> Iterator[Metric]:
    """Nothing without an authorizer. A rate is that of the last minute, or since the scrape before if that is longer ago."""
    authorizer = services.access.authorizer
    if authorizer is None:
        return
    decisions = CounterMetricFamily(
        "odradek_authorization_decisions", "Decisions of the authorizer.", labels=("decision",)
    )
    decisions.add_metric(["allowed"], authorizer.allowed)
    decisions.add_metric(["denied"], authorizer.denied)
    yield decisions
    labels = ["authorizer.class.name", authorizer.class_name, "broker" if services.config.is_broker else "controller"]
    if authorizer.uses_acls:
        count = GaugeMetricFamily(f"{_RULES_PREFIX}_acls_total_count", "ACLs of the cluster.", labels=_LABELS)
        count.add_metric(labels, authorizer.rule_count)
        yield count
    for name, rate in _rates(authorizer, services.clock.now_ms()).items():
        family = GaugeMetricFamily(
            f"{_RULES_PREFIX}_authorization_{name}_rate_per_minute",
            "Decisions of the authorizer per minute.",
            labels=_LABELS,
        )
        family.add_metric(labels, rate)
        yield family


def _rates(authorizer: Authorization, now_ms: int) -> dict[str, float]:
    allowed, denied, elapsed_ms = authorizer.recent.since(now_ms, authorizer.allowed, authorizer.denied)
    minutes = max(1, elapsed_ms) / 60_000
    return {"request": (allowed + denied) / minutes, "allowed": allowed / minutes, "denied": denied / minutes}


# Metrics that clients have pushed (KIP-714), and of the pushes themselves.


def telemetry(services: Services) -> Iterator[Metric]:
    found = services.telemetry.clients
    if found is None:
        return
    instances, series = found.instances, found.series
    yield GaugeMetricFamily("kafka_server_client_metrics_instance_count", "Client instances.", value=len(instances))
    yield GaugeMetricFamily("odradek_client_metrics_series", "Series that clients have pushed.", value=series.series)
    counts: dict[str, tuple[str, int]] = {
        "odradek_client_metrics_throttled_requests": (
            "Requests that were rejected because their push interval was not over.",
            instances.throttled,
        ),
        "odradek_client_metrics_unknown_subscriptions": (
            "Pushes with an unknown or old subscription id.",
            instances.unknown_subscriptions,
        ),
        "odradek_client_metrics_pushes": ("Pushes that were decoded.", found.pushes),
        "odradek_client_metrics_unreadable_pushes": ("Pushes that could not be decoded.", found.unreadable),
        "odradek_client_metrics_left_out": (
            "Data points that were dropped: beyond a limit, or of an unsupported kind.",
            series.left_out,
        ),
    }
    collector = found.collector
    if collector is not None:
        counts |= {
            "odradek_client_metrics_exported": ("Pushes that the OTLP collector accepted.", collector.sent),
            "odradek_client_metrics_export_failures": (
                "Pushes that the OTLP collector did not accept.",
                collector.failed,
            ),
            "odradek_client_metrics_export_drops": (
                "Pushes that were dropped because the queue to the OTLP collector was full.",
                collector.dropped,
            ),
        }
    for name, (words, count) in counts.items():
        yield CounterMetricFamily(name, words, value=count)
    for family, values in series.collect(services.clock.now_ms()):
        shown = Metric(family.name, family.description, "counter" if family.is_counter else "gauge")
        for labels, value in values:
            shown.add_sample(family.name + ("_total" if family.is_counter else ""), dict(labels), value)
        yield shown


# Metrics of tiered storage, under Kafka's names (KIP-405, KIP-930, KIP-956, KIP-963, KIP-1018).


_TOPICS = "kafka_server_brokertopicmetrics"
_REMOTE_LOG_MANAGER = "kafka_log_remote_remotelogmanager"
_REMOTE_COUNTERS = {
    "remotecopybytes": ("copy_bytes", "Bytes that were copied to the remote store."),
    "remotecopyrequests": ("copy_requests", "Copies of segments to the remote store."),
    "remotecopyerrors": ("copy_errors", "Copies of segments to the remote store that failed."),
    "remotefetchbytes": ("fetch_bytes", "Bytes that were read from the remote store."),
    "remotefetchrequests": ("fetch_requests", "Reads of the remote store."),
    "remotefetcherrors": ("fetch_errors", "Reads of the remote store that failed."),
    "remotedeleterequests": ("delete_requests", "Deletions of segments in the remote store."),
    "remotedeleteerrors": ("delete_errors", "Deletions of segments in the remote store that failed."),
    "buildremotelogauxstaterequests": ("aux_requests", "Starts of followers behind the part of the remote store."),
    "buildremotelogauxstateerrors": (
        "aux_errors",
        "Starts of followers behind the part of the remote store that failed.",
    ),
}
_REMOTE_GAUGES = {
    "remotecopylagbytes": "Bytes of closed segments that are not in the remote store.",
    "remotecopylagsegments": "Closed segments that are not in the remote store.",
    "remotedeletelagbytes": "Bytes of segments that retention condemns and the remote store still has.",
    "remotedeletelagsegments": "Segments that retention condemns and the remote store still has.",
    "remotelogsizebytes": "Bytes of copied segments.",
    "remotelogsizecomputationtime": "Time that the last computation of the size for retention took, in milliseconds.",
    "remotelogmetadatacount": "Segments in the metadata of the remote store.",
}


def tiered_storage(subsystem: RemoteSubsystem) -> Iterator[Metric]:
    work = subsystem.work
    for name, (attribute, words) in _REMOTE_COUNTERS.items():
        family = CounterMetricFamily(f"{_TOPICS}_{name}", words, labels=("topic",))
        for topic, counters in work.counters.topics.items():
            family.add_metric([topic], getattr(counters, attribute))
        yield family
    yield from _remote_gauges(subsystem)
    yield from _remote_pools(subsystem)
    yield from _remote_waits(subsystem)
    throttled = {"copy": work.counters.copy_throttled_ms, "fetch": work.counters.fetch_throttled_ms}
    for name, waited_ms in throttled.items():
        words = f"Time that the quota of remote {name} has added, in milliseconds."
        yield CounterMetricFamily(f"kafka_log_remotelogmanager_remote_{name}_throttle_time_ms", words, value=waited_ms)
    doubtful = len(list(work.events.damaged_partitions()))
    words = (
        "Partitions of __remote_log_metadata with records that cannot be read: nothing in them is copied or deleted."
    )
    yield GaugeMetricFamily("odradek_remote_log_metadata_doubtful_partitions", words, value=doubtful)


def _remote_gauges(subsystem: RemoteSubsystem) -> Iterator[Metric]:
    sums: dict[str, defaultdict[str, float]] = {name: defaultdict(float) for name in _REMOTE_GAUGES}
    for one in subsystem.logs.values():
        if one.leads:
            topic, cache = one.hosted.topic, one.cache
            sums["remotecopylagbytes"][topic] += one.copy_lag_bytes
            sums["remotecopylagsegments"][topic] += one.copy_lag_segments
            sums["remotedeletelagbytes"][topic] += one.delete_lag_bytes
            sums["remotedeletelagsegments"][topic] += one.delete_lag_segments
            sums["remotelogsizebytes"][topic] += one.size_bytes()
            sums["remotelogsizecomputationtime"][topic] += one.size_computation_ms
            sums["remotelogmetadatacount"][topic] += 0 if cache is None else len(cache)
    for name, words in _REMOTE_GAUGES.items():
        family = GaugeMetricFamily(f"{_TOPICS}_{name}", words, labels=("topic",))
        for topic, value in sums[name].items():
            family.add_metric([topic], value)
        yield family


def _remote_pools(subsystem: RemoteSubsystem) -> Iterator[Metric]:
    readers = subsystem.work.readers
    # The second group is the deprecated one (KIP-1100).
    for group in ("kafka_log_remote", "org_apache_kafka_storage_internals_log"):
        words = "Reads of the remote store that wait for a thread."
        name = f"{group}_remotestoragethreadpool_remotelogreader"
        yield GaugeMetricFamily(f"{name}taskqueuesize", words, value=readers.queued)
        words = "Share of the threads that read the remote store without work."
        idle = 1 - readers.active / max(1, readers.size)
        yield GaugeMetricFamily(f"{name}avgidlepercent", words, value=idle)
    work = subsystem.work
    tasks = (work.copiers, work.expirers, work.followers)
    idle = 1 - sum(pool.active for pool in tasks) / max(1, sum(pool.size for pool in tasks))
    words = "Share of the threads that copy, delete and start followers without work."
    yield GaugeMetricFamily(f"{_REMOTE_LOG_MANAGER}_remotelogmanagertasksavgidlepercent", words, value=idle)


def _remote_waits(subsystem: RemoteSubsystem) -> Iterator[Metric]:
    counters = subsystem.work.counters
    words = "Reads of the remote store, and the time that they took, in milliseconds."
    name = f"{_REMOTE_LOG_MANAGER}_remotelogreaderfetchrateandtimems"
    yield SummaryMetricFamily(name, words, count_value=counters.reads, sum_value=counters.read_ms)
    words = "Fetches that were answered before their reads of the remote store had ended."
    yield CounterMetricFamily("kafka_server_delayedremotefetchmetrics_expires", words, value=counters.expired_fetches)
    words = "Partitions of ListOffsets that were answered before the remote store was searched."
    family = CounterMetricFamily("kafka_server_delayedremotelistoffsetsmetrics_expires", words, labels=("topic",))
    for topic, found in counters.topics.items():
        family.add_metric([topic], found.expired_searches)
    yield family
