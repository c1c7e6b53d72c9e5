"""The tables of config keys by type of resource: every key of Kafka 4.4, and Odradek's own.

The keys of topics, groups, client metrics and Odradek's own are rows in this file. Those of brokers come from the
modules of each subject. `BROKER`, `TOPIC`, `GROUP`, `CLIENT_METRICS` and `OWN` are the combined tables; `definition`
finds the table of a type.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import broker
from .key import (
    BOOLEAN,
    DOUBLE,
    FOREVER,
    INT,
    LIST,
    LONG,
    STRING,
    ConfigKey,
    ResourceType,
    at_least,
    between,
    gzip_level,
    key,
    list_of,
    non_empty,
    one_of,
    port,
    share_auto_offset_reset,
    table,
    throttled_replicas,
)

# ---- topics
#
# Configs of a topic. `broker` is the broker's key for the default.

TOPIC_KEYS = (
    key("cleanup.policy", LIST, ("delete",), list_of("compact", "delete"), broker="log.cleanup.policy"),
    key("compression.gzip.level", INT, -1, gzip_level, broker="compression.gzip.level"),
    key("compression.lz4.level", INT, 9, between(1, 17), broker="compression.lz4.level"),
    key(
        "compression.type",
        STRING,
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        broker="compression.type",
    ),
    key("compression.zstd.level", INT, 3, between(-131_072, 22), broker="compression.zstd.level"),
    key("delete.retention.ms", LONG, 86_400_000, at_least(0), broker="log.cleaner.delete.retention.ms"),
    key("errors.deadletterqueue.group.enable", BOOLEAN, False),
    key("file.delete.delay.ms", LONG, 60_000, at_least(0), broker="log.segment.delete.delay.ms"),
    key("flush.messages", LONG, FOREVER, at_least(1), broker="log.flush.interval.messages"),
    key("flush.ms", LONG, FOREVER, at_least(0), broker="log.flush.interval.ms"),
    key("follower.replication.throttled.replicas", LIST, (), throttled_replicas),
    key("index.interval.bytes", INT, 4096, at_least(0), broker="log.index.interval.bytes"),
    key("internal.segment.bytes", INT, internal=True),
    key("leader.replication.throttled.replicas", LIST, (), throttled_replicas),
    key("local.retention.bytes", LONG, -2, at_least(-2), broker="log.local.retention.bytes"),
    key("local.retention.ms", LONG, -2, at_least(-2), broker="log.local.retention.ms"),
    key("max.compaction.lag.ms", LONG, FOREVER, at_least(1), broker="log.cleaner.max.compaction.lag.ms"),
    key(
        "max.decompressed.message.bytes",
        INT,
        2_147_483_639,
        between(1, 2_147_483_639),
        broker="max.decompressed.message.bytes",
    ),
    key("max.message.bytes", INT, 1_048_588, at_least(0), broker="message.max.bytes"),
    key("message.timestamp.after.max.ms", LONG, 3_600_000, at_least(0), broker="log.message.timestamp.after.max.ms"),
    key("message.timestamp.before.max.ms", LONG, FOREVER, at_least(0), broker="log.message.timestamp.before.max.ms"),
    key(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        broker="log.message.timestamp.type",
    ),
    key("min.cleanable.dirty.ratio", DOUBLE, 0.5, between(0, 1), broker="log.cleaner.min.cleanable.ratio"),
    key("min.compaction.lag.ms", LONG, 0, at_least(0), broker="log.cleaner.min.compaction.lag.ms"),
    key("min.insync.replicas", INT, 1, at_least(1), broker="min.insync.replicas"),
    key("preallocate", BOOLEAN, False, broker="log.preallocate"),
    key("remote.copy.lag.bytes", LONG, -1, at_least(-1), broker="log.remote.copy.lag.bytes"),
    key("remote.copy.lag.ms", LONG, 0, at_least(-1), broker="log.remote.copy.lag.ms"),
    key("remote.log.copy.disable", BOOLEAN, False),
    key("remote.log.delete.on.disable", BOOLEAN, False),
    key("remote.storage.enable", BOOLEAN, False),
    key("retention.bytes", LONG, -1, broker="log.retention.bytes"),
    key("retention.ms", LONG, 604_800_000, at_least(-1), broker="log.retention.ms"),
    key("segment.bytes", INT, 1_073_741_824, at_least(1_048_576), broker="log.segment.bytes"),
    key("segment.index.bytes", INT, 10_485_760, at_least(4), broker="log.index.size.max.bytes"),
    key("segment.jitter.ms", LONG, 0, at_least(0), broker="log.roll.jitter.ms"),
    key("segment.ms", LONG, 604_800_000, at_least(1), broker="log.roll.ms"),
    key("unclean.leader.election.enable", BOOLEAN, False, broker="unclean.leader.election.enable"),
)


# ---- groups
#
# Configs of a group (KIP-848, KIP-932, KIP-1071). `broker` is the broker's key for the default.


GROUP_KEYS = (
    key("consumer.assignment.interval.ms", INT, 1000, at_least(0), broker="group.consumer.assignment.interval.ms"),
    key(
        "consumer.assignor.offload.enable",
        BOOLEAN,
        True,
        broker="group.consumer.assignor.offload.enable",
        internal=True,
    ),
    key("consumer.heartbeat.interval.ms", INT, 5000, at_least(1), broker="group.consumer.heartbeat.interval.ms"),
    key("consumer.session.timeout.ms", INT, 45_000, at_least(1), broker="group.consumer.session.timeout.ms"),
    key("errors.deadletterqueue.copy.record.enable", BOOLEAN, False),
    key("errors.deadletterqueue.topic.name", STRING, ""),
    key("share.assignment.interval.ms", INT, 1000, at_least(0), broker="group.share.assignment.interval.ms"),
    key("share.assignor.offload.enable", BOOLEAN, True, broker="group.share.assignor.offload.enable", internal=True),
    key("share.auto.offset.reset", STRING, "latest", share_auto_offset_reset),
    key("share.delivery.count.limit", INT, 5, at_least(2), broker="group.share.delivery.count.limit"),
    key("share.heartbeat.interval.ms", INT, 5000, at_least(1), broker="group.share.heartbeat.interval.ms"),
    key("share.isolation.level", STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted")),
    key("share.partition.max.record.locks", INT, 2000, at_least(100), broker="group.share.partition.max.record.locks"),
    key("share.record.lock.duration.ms", INT, 30_000, at_least(1000), broker="group.share.record.lock.duration.ms"),
    key("share.renew.acknowledge.enable", BOOLEAN, True),
    key("share.session.timeout.ms", INT, 45_000, at_least(1), broker="group.share.session.timeout.ms"),
    key(
        "streams.acceptable.recovery.lag",
        LONG,
        10_000,
        at_least(0),
        broker="group.streams.acceptable.recovery.lag",
        internal=True,
    ),
    key("streams.assignment.interval.ms", INT, 1000, at_least(0), broker="group.streams.assignment.interval.ms"),
    key("streams.assignor.name", STRING, broker="group.streams.assignors"),
    key(
        "streams.assignor.offload.enable", BOOLEAN, True, broker="group.streams.assignor.offload.enable", internal=True
    ),
    key("streams.heartbeat.interval.ms", INT, 5000, at_least(1), broker="group.streams.heartbeat.interval.ms"),
    key(
        "streams.initial.rebalance.delay.ms", INT, 3000, at_least(0), broker="group.streams.initial.rebalance.delay.ms"
    ),
    key("streams.num.standby.replicas", INT, 0, at_least(0), broker="group.streams.num.standby.replicas"),
    key("streams.num.warmup.replicas", INT, 2, at_least(0), broker="group.streams.num.warmup.replicas", internal=True),
    key("streams.rack.aware.assignment.tags", LIST, (), list_of(), broker="group.streams.rack.aware.assignment.tags"),
    key("streams.session.timeout.ms", INT, 45_000, at_least(1), broker="group.streams.session.timeout.ms"),
    key(
        "streams.task.offset.interval.ms",
        INT,
        60_000,
        at_least(1),
        broker="group.streams.task.offset.interval.ms",
        internal=True,
    ),
)


# ---- client metrics
#
# Configs of a client metrics subscription (KIP-714).


CLIENT_METRICS_KEYS = (
    key("interval.ms", INT, 300_000),
    key("match", LIST, (), list_of()),
    key("metrics", LIST, (), list_of()),
)


# ---- Odradek's own
#
# Odradek's own keys, which Apache Kafka does not have.
#
# They are set in server.properties beside Kafka's. DescribeConfigs lists them only if they are set. A change requires
# a restart.


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
    # 8 MiB/s takes 0.3 % of a core, and a twelfth of a disk that reads 100 MiB/s. A week at that rate covers 4.8 TB.
    key("odradek.scrub.bytes.per.second", LONG, 8 << 20, at_least(0)),
    key("odradek.slow.request.ms", INT, None, at_least(1)),
    key("odradek.telemetry.otlp.endpoint", STRING, None),
    key("odradek.scrub.interval.ms", LONG, 7 * 24 * 3_600_000, at_least(1)),
)


# ---- combined tables

BROKER = table(*broker.TABLES)
TOPIC = table(TOPIC_KEYS)
GROUP = table(GROUP_KEYS)
CLIENT_METRICS = table(CLIENT_METRICS_KEYS)
OWN = table(OWN_KEYS)

_BY_TYPE = {
    ResourceType.BROKER: BROKER,
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS,
}


def definition(resource_type: int) -> Mapping[str, ConfigKey]:
    """Returns the keys of a type of resource by name, ordered by name; empty for a type without a table."""
    return _BY_TYPE.get(ResourceType(resource_type), {}) if resource_type in _BY_TYPE else {}
