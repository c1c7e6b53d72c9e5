"""Metrics of tiered storage, under Kafka's names (KIP-405, KIP-930, KIP-956, KIP-963, KIP-1018)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

if TYPE_CHECKING:
    from ..remote.subsystem import RemoteSubsystem

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
    words = "Records of __remote_log_metadata that cannot be read, and are skipped."
    damaged = work.events.damaged_records()
    yield GaugeMetricFamily("odradek_remote_log_metadata_damaged_records", words, value=damaged)
    words = "Bytes of reads of the remote store, and of responses with their results."
    yield GaugeMetricFamily("odradek_remote_fetch_buffer_bytes", words, value=subsystem.reader.budget.used_bytes)
    words = "Reads of the remote store that wait for memory."
    yield GaugeMetricFamily("odradek_remote_fetch_waiting", words, value=subsystem.reader.budget.waiting)
    words = "Connections that were dropped since they did not read records of the remote store."
    yield CounterMetricFamily("odradek_remote_fetch_dropped_connections", words, value=subsystem.reader.budget.dropped)


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
