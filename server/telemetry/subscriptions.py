"""Subscriptions to client metrics: which clients push which metrics, and how often (KIP-714)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.configs import InvalidConfig, validate_client_metrics_configs
from ...metadata.image import CLIENT_METRICS_RESOURCE
from ...protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ..network.call import Call

log = logging.getLogger("odradek.telemetry")
ALL_METRICS = "*"
DEFAULT_INTERVAL_MS = 300_000
Matches = Callable[[str], object]


class ClientLabels(NamedTuple):
    """The labels of a client, by the names that subscriptions use. None where it sends nothing."""

    client_instance_id: str
    client_id: str | None
    client_software_name: str | None
    client_software_version: str | None
    client_source_address: str
    client_source_port: str


def client_of(call: Call, instance_id: bytes) -> ClientLabels:
    """Returns the client behind a request, as subscriptions match it."""
    name, version = call.connection.software or (None, None)
    return ClientLabels(
        client_instance_id=uuid_to_text(instance_id),
        client_id=call.client_id,
        client_software_name=name,
        client_software_version=version,
        client_source_address=call.client_host.removeprefix("/"),
        client_source_port=call.connection.remote_address.rpartition(":")[2],
    )


class Subscription(NamedTuple):
    """`patterns`: by attribute of the client, a function that returns true for the whole value."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Matches]

    def matches(self, client: ClientLabels) -> bool:
        """Returns True if every pattern matches. A pattern for what a client does not tell matches nothing."""
        return all(
            (value := getattr(client, attribute)) is not None and matches(value)
            for attribute, matches in self.patterns.items()
        )


class Wanted(NamedTuple):
    """The metrics of all subscriptions that match a client: prefixes of names, `*` for all, nothing for none."""

    metrics: tuple[str, ...]
    interval_ms: int


def subscriptions(image: MetadataImage) -> list[Subscription]:
    """Returns the subscriptions of an image. One that cannot be used is logged and left out."""
    found = []
    for (kind, name), configs in image.configs.items():
        if kind == CLIENT_METRICS_RESOURCE:
            try:
                found.append(_subscription(name, configs))
            except (InvalidConfig, ValueError) as error:
                log.warning("the client metrics subscription %r is ignored: %s", name, error)
    return found


def wanted(of: Iterable[Subscription], client: ClientLabels) -> Wanted:
    """Returns what a client is to push: of the intervals that match the shortest, the default at most."""
    metrics: dict[str, None] = {}
    interval_ms = DEFAULT_INTERVAL_MS
    for one in of:
        if one.matches(client):
            metrics.update(dict.fromkeys(one.metrics))
            interval_ms = min(interval_ms, one.interval_ms)
    return Wanted((ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics)), interval_ms)


def _subscription(name: str, configs: Mapping[str, str]) -> Subscription:
    """Raises InvalidConfig, and ValueError for a pattern that is not regular in RE2's sense."""
    values = validate_client_metrics_configs(name, configs)
    interval_ms = values.get("interval.ms", DEFAULT_INTERVAL_MS)
    metrics, patterns = values.get("metrics", ()), values.get("match", ())
    assert isinstance(interval_ms, int)
    assert isinstance(metrics, tuple)
    assert isinstance(patterns, tuple)
    return Subscription(metrics, interval_ms, dict(map(_pattern, patterns)))


def _pattern(text: str) -> tuple[str, Matches]:
    # RE2 takes linear time: a client chooses the value that is matched.
    import re2

    attribute, _, pattern = text.partition("=")
    try:
        return attribute.strip(), re2.compile(pattern.rstrip("=").strip()).fullmatch
    except re2.error as error:
        raise ValueError(f"{text}: {error}") from None
