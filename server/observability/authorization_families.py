"""Metrics of the authorizer, under the names of Kafka's own (kafka.server:type=plugins,config=authorizer.class.name)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from ..access.authorization.authorization import Authorization
    from ..services import NodeServices

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
