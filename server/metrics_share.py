"""What a scrape is told of share groups: their dead letters (KIP-1191)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, Metric

if TYPE_CHECKING:
    from .broker import BrokerServer

_DEAD_LETTERS = {
    "deadletterqueuerecordcount": ("records", "Records written to dead letter queues."),
    "deadletterqueuetotalproducerequests": ("produces", "Produce requests of dead letters."),
    "deadletterqueuefailedproducerequests": ("failed_produces", "Those after which dead letters were given up."),
}


def share(broker: BrokerServer) -> Iterator[Metric]:
    """A sample per group that has had dead letters here."""
    groups = broker.dead_letters.counters if "dead_letters" in broker.__dict__ else {}
    for name, (counter, words) in _DEAD_LETTERS.items():
        family = CounterMetricFamily(f"kafka_server_sharegroupmetrics_{name}", words, labels=("group",))
        for group_id, counters in groups.items():
            family.add_metric([group_id], getattr(counters, counter))
        yield family
