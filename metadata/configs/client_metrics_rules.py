"""Rules for the values of a client metrics subscription (KIP-714)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from .resources import CLIENT_METRICS
from .values import InvalidConfig

if TYPE_CHECKING:
    from .values import Value

_INTERVAL_MS = range(100, 3_600_001)
_MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def validate_client_metrics_configs(name: str, configs: Mapping[str, str]) -> dict[str, Value]:
    """Returns the typed values of a subscription; raises InvalidConfig with Kafka's error."""
    if not name:
        raise InvalidConfig("Subscription name can't be empty", ErrorCode.INVALID_REQUEST)
    for unknown in configs:
        if unknown not in CLIENT_METRICS:
            raise InvalidConfig(f"Unknown client metrics configuration: {unknown}", ErrorCode.INVALID_REQUEST)
    values = {key: CLIENT_METRICS[key].parse(text) for key, text in configs.items()}
    interval = values.get("interval.ms")
    if interval is not None and interval not in _INTERVAL_MS:
        raise InvalidConfig(
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            ErrorCode.INVALID_REQUEST,
        )
    matches = values.get("match", ())
    assert isinstance(matches, tuple)
    for pattern in matches:
        _match(pattern)
    return values


def _match(pattern: str) -> None:
    parts = pattern.rstrip("=").split("=")
    if len(parts) != 2 or parts[0].strip() not in _MATCHED:
        raise InvalidConfig(f"Illegal client matching pattern: {pattern}")
    try:
        re.compile(parts[1].strip())
    except re.error:
        raise InvalidConfig(f"Illegal client matching pattern: {pattern}") from None
