"""Configs of a client metrics subscription (KIP-714)."""

from __future__ import annotations

from .checks import list_of
from .key import key
from .values import INT, LIST

CLIENT_METRICS_KEYS = (
    key("interval.ms", INT, 300_000),
    key("match", LIST, (), list_of()),
    key("metrics", LIST, (), list_of()),
)
