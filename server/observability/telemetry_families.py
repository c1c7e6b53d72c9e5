"""Metrics that clients have pushed (KIP-714), and of the pushes themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from ..services import Services


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
