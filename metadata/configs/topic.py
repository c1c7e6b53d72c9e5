"""Configs of a topic. `broker` is the broker's key for the default."""

from __future__ import annotations

from .checks import at_least, between, gzip_level, list_of, one_of, throttled_replicas
from .inert import TIERED
from .key import BOOLEAN, DOUBLE, FOREVER, INT, LIST, LONG, STRING, key

KEYS = (
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
    key("local.retention.bytes", LONG, -2, at_least(-2), broker="log.local.retention.bytes", inert=TIERED),
    key("local.retention.ms", LONG, -2, at_least(-2), broker="log.local.retention.ms", inert=TIERED),
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
    key("remote.copy.lag.bytes", LONG, -1, at_least(-1), broker="log.remote.copy.lag.bytes", inert=TIERED),
    key("remote.copy.lag.ms", LONG, 0, at_least(-1), broker="log.remote.copy.lag.ms", inert=TIERED),
    key("remote.log.copy.disable", BOOLEAN, False, inert=TIERED),
    key("remote.log.delete.on.disable", BOOLEAN, False, inert=TIERED),
    key("remote.storage.enable", BOOLEAN, False, inert=TIERED),
    key("retention.bytes", LONG, -1, broker="log.retention.bytes"),
    key("retention.ms", LONG, 604_800_000, at_least(-1), broker="log.retention.ms"),
    key("segment.bytes", INT, 1_073_741_824, at_least(1_048_576), broker="log.segment.bytes"),
    key("segment.index.bytes", INT, 10_485_760, at_least(4), broker="log.index.size.max.bytes"),
    key("segment.jitter.ms", LONG, 0, at_least(0), broker="log.roll.jitter.ms"),
    key("segment.ms", LONG, 604_800_000, at_least(1), broker="log.roll.ms"),
    key("unclean.leader.election.enable", BOOLEAN, False, broker="unclean.leader.election.enable"),
)
