"""Metrics of logins, by listener, under the names of Kafka's own (kafka.server:type=socket-server-metrics)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, Metric

if TYPE_CHECKING:
    from ..services import NodeServices

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
