"""Metrics of the budget of descriptors: how many connections may still come, and how many were refused.

Apache Kafka has no such metrics; the process's own `process_open_fds` and `process_max_fds` stand beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...storage.files.descriptors import SPARES
from ...storage.files.open_files import OpenFile
from ..network.descriptors import DESCRIPTORS

if TYPE_CHECKING:
    from ..services import NodeServices


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
