"""Odradek's own keys, which Apache Kafka does not have. They live in server.properties beside Kafka's, are shown by
DescribeConfigs only where they are set, and change with a restart.
"""

from __future__ import annotations

from .checks import one_of
from .key import INT, STRING, key

KEYS = (
    key("odradek.metrics.host", STRING, "127.0.0.1"),
    key("odradek.metrics.port", INT, None),
    key("odradek.produce.validation", STRING, "full", one_of("header", "framing", "full")),
)
