"""Odradek's own keys, which Apache Kafka does not have. They live in server.properties beside Kafka's, are shown by
DescribeConfigs only where they are set, and change with a restart.
"""

from __future__ import annotations

from .checks import at_least, non_empty, one_of, port
from .key import INT, LONG, STRING, key

KEYS = (
    # Half is what a thousand consumers of a hundred partitions each have, and the followers of 10,000; all takes 50 MB.
    key("odradek.fetch.session.cache.partitions", INT, 250_000, at_least(0)),
    key("odradek.metrics.host", STRING, "127.0.0.1", non_empty),
    key("odradek.metrics.port", INT, None, port),
    key("odradek.produce.validation", STRING, "full", one_of("header", "framing", "full")),
    # 8 MiB/s is 0.3 % of a core and, of a disk that reads 100 MiB/s, a twelfth; a week has time for 4.8 TB at that rate.
    key("odradek.scrub.bytes.per.second", LONG, 8 << 20, at_least(0)),
    key("odradek.scrub.interval.ms", LONG, 7 * 24 * 3_600_000, at_least(1)),
)
