"""Odradek's own keys, which Apache Kafka does not have.

Those of brokers are set in server.properties beside Kafka's, and a change requires a restart. DescribeConfigs lists keys of
brokers and of topics only if they are set.
"""

from __future__ import annotations

from .checks import at_least, list_of, non_empty, one_of, port, table_name
from .key import key
from .values import BOOLEAN, INT, LIST, LONG, STRING

OWN_KEYS = (
    # Kafka's until 3.9, with its defaults. Kafka 4 waits five minutes for a controller, whatever they say.
    key("controlled.shutdown.max.retries", INT, 3, at_least(0)),
    key("controlled.shutdown.retry.backoff.ms", LONG, 5000, at_least(0)),
    key("odradek.audit.format", STRING, "text", one_of("text", "json")),
    # Half is enough for a thousand consumers of a hundred partitions each, plus the followers of 10,000. A full cache
    # takes 50 MB.
    key("odradek.fetch.session.cache.partitions", INT, 100_000, at_least(0)),
    # A sample of a partition takes 80 bytes of text: 1,000 are 80 KB a scrape.
    key("odradek.metrics.lag.series", INT, 1000, at_least(0)),
    key("odradek.metrics.host", STRING, "127.0.0.1", non_empty),
    key("odradek.metrics.port", INT, None, port),
    key("odradek.produce.validation", STRING, "full", one_of("header", "framing", "full")),
    # Nodes of Apache Kafka, and those of Odradek.
    key("odradek.remote.log.metadata.client.ids", LIST, ("__remote_log_metadata_client_*", "odradek-*"), list_of()),
    # 64 consumers at once, each with a partition of 1 MiB, or eight with ranges of 8 MiB.
    key("odradek.remote.fetch.buffer.bytes", LONG, 64 << 20, at_least(1 << 20)),
    # 8 MiB/s takes 0.3 % of a core, and a twelfth of a disk that reads 100 MiB/s. A week at that rate covers 4.8 TB.
    key("odradek.scrub.bytes.per.second", LONG, 8 << 20, at_least(0)),
    key("odradek.slow.request.ms", INT, None, at_least(1)),
    key("odradek.table.catalog.config", STRING, None, non_empty),
    key("odradek.table.client.config", STRING, None, non_empty),
    # The default of `odradek archive`; 0.1 s is its least.
    key("odradek.table.freshness.ms", INT, 10_000, at_least(100)),
    key("odradek.table.namespace", STRING, "kafka", non_empty),
    key("odradek.table.warehouse", STRING, None, non_empty),
    key("odradek.telemetry.otlp.endpoint", STRING, None),
    key("odradek.scrub.interval.ms", LONG, 7 * 24 * 3_600_000, at_least(1)),
)

#: Keys of topics (docs/specialists/tables-that-follow.md). `internal`: listed only if set, since Apache Kafka has none.
OWN_TOPIC_KEYS = (
    key("odradek.table.enable", BOOLEAN, False, internal=True),
    key("odradek.table.envelope", STRING, "none", one_of("none", "debezium"), internal=True),
    key("odradek.table.format", STRING, "raw", one_of("raw", "json", "avro", "protobuf"), internal=True),
    key("odradek.table.keep.value", BOOLEAN, False, internal=True),
    key("odradek.table.key", STRING, None, non_empty, internal=True),
    key("odradek.table.name", STRING, None, table_name, internal=True),
    # With odradek.table.key columns, and else a unit: table_rules.py has this rule.
    key("odradek.table.partition.by", STRING, None, non_empty, internal=True),
    key("odradek.table.row.ttl.ms", LONG, None, at_least(1_000), internal=True),
    key("odradek.table.skip.unreadable", BOOLEAN, False, internal=True),
    key("odradek.table.sort.by", STRING, None, non_empty, internal=True),
)
