"""The newest values that clients have pushed, as they are shown to Prometheus: bounded in clients, names and series.

A metric `org.apache.kafka.producer.node.request.latency.avg` is shown as
`kafka_client_producer_node_request_latency_avg`. Sums that grow are counters: what clients push as differences is
added up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .otlp import Sample
from .subscriptions import ClientLabels

#: Clients whose metrics are shown; further ones are counted and left out.
MOST_CLIENTS = 1_000
#: Series of one client, of all clients (500 bytes each), and names of metrics.
MOST_SERIES_OF_CLIENT, MOST_SERIES, MOST_NAMES = 2_000, 100_000, 2_000
#: The labels that tell clients apart.
CLIENT_LABELS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
)
_PREFIX = "kafka_client_"
_OWN = re.compile(r"^org\.apache\.kafka\.")
_ODD = re.compile(r"[^a-zA-Z0-9_]")
Labels = tuple[tuple[str, str], ...]


class Family(NamedTuple):
    """The series of one name. All are of one kind: the first client's."""

    name: str
    is_counter: bool
    description: str


class _Shown:
    """The series of one client, until `expires_ms`."""

    __slots__ = ("expires_ms", "labels", "values")

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.values: dict[tuple[str, Labels], float] = {}
        self.expires_ms = 0


class ClientSeries:
    """The series of all clients."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._clients: dict[str, _Shown] = {}
        self.series = 0
        #: Points that were not shown because a limit was reached or their kind was not that of the name.
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._clients)

    def take(self, client: ClientLabels, samples: Iterable[Sample], expires_ms: int, now_ms: int) -> None:
        """Shows samples of a client until `expires_ms`, unless newer ones come."""
        self.expire(now_ms)
        shown = self._clients.get(client.client_instance_id)
        if shown is None:
            if len(self._clients) >= MOST_CLIENTS:
                self.left_out += sum(1 for _ in samples)
                return
            labels = tuple((name, getattr(client, name) or "") for name in CLIENT_LABELS)
            shown = self._clients[client.client_instance_id] = _Shown(labels)
        shown.expires_ms = expires_ms
        for sample in samples:
            self._add(shown, sample)

    def expire(self, now_ms: int) -> None:
        """Drops the series of clients that have not pushed in time."""
        for instance_id in [one for one, shown in self._clients.items() if shown.expires_ms <= now_ms]:
            self.series -= len(self._clients.pop(instance_id).values)
        if not self._clients:
            self._families.clear()

    def collect(self, now_ms: int) -> Iterator[tuple[Family, list[tuple[Labels, float]]]]:
        """Yields each name with the labels and values of its series."""
        self.expire(now_ms)
        found: dict[str, list[tuple[Labels, float]]] = {}
        for shown in self._clients.values():
            for (name, labels), value in shown.values.items():
                found.setdefault(name, []).append((shown.labels + labels, value))
        for name, series in sorted(found.items()):
            yield self._families[name], series

    def _add(self, shown: _Shown, sample: Sample) -> None:
        name = shown_name(sample.name, is_counter=sample.is_counter)
        family = self._families.get(name)
        if family is None and len(self._families) < MOST_NAMES:
            family = self._families[name] = Family(name, sample.is_counter, sample.description)
        key = (name, _labels(sample.labels))
        is_new = key not in shown.values
        has_room = self.series < MOST_SERIES and len(shown.values) < MOST_SERIES_OF_CLIENT
        if family is None or family.is_counter != sample.is_counter or (is_new and not has_room):
            self.left_out += 1
            return
        self.series += is_new
        before = shown.values.get(key, 0.0) if sample.is_delta else 0.0
        shown.values[key] = before + sample.value


def shown_name(name: str, *, is_counter: bool) -> str:
    """Returns the name of a metric as Prometheus takes it; of a counter without `_total`, which is added to all."""
    plain = _PREFIX + _ODD.sub("_", _OWN.sub("", name))
    return plain.removesuffix("_total") if is_counter else plain


def _labels(labels: Labels) -> Labels:
    """Returns the labels of a point; one that has the name of a client's label is marked."""
    named = {}
    for name, value in labels:
        plain = _ODD.sub("_", name).lstrip("_0123456789") or "label"
        named[f"point_{plain}" if plain in CLIENT_LABELS else plain] = value
    return tuple(sorted(named.items()))
