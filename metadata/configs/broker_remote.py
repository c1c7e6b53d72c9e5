"""Broker configs for tiered storage (KIP-405)."""

from __future__ import annotations

from .checks import at_least, between, non_empty
from .inert import TIERED
from .key import BOOLEAN, CLUSTER, DOUBLE, FOREVER, INT, LONG, STRING, key

KEYS = (
    key("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, scope=CLUSTER, inert=TIERED),
    key("log.local.retention.bytes", LONG, -2, at_least(-2), CLUSTER, inert=TIERED),
    key("log.local.retention.ms", LONG, -2, at_least(-2), CLUSTER, inert=TIERED),
    key("log.remote.copy.lag.bytes", LONG, -1, at_least(-1), CLUSTER, inert=TIERED),
    key("log.remote.copy.lag.ms", LONG, 0, at_least(-1), CLUSTER, inert=TIERED),
    key("remote.fetch.max.wait.ms", INT, 500, at_least(1), CLUSTER, inert=TIERED),
    key("remote.list.offsets.request.timeout.ms", LONG, 30_000, at_least(1), CLUSTER, inert=TIERED),
    key("remote.log.index.file.cache.total.size.bytes", LONG, 1_073_741_824, at_least(1), CLUSTER, inert=TIERED),
    key("remote.log.index.file.cache.ttl.ms", LONG, 900_000, at_least(-1), internal=True, inert=TIERED),
    key("remote.log.manager.copier.thread.pool.size", INT, 10, at_least(1), CLUSTER, inert=TIERED),
    key("remote.log.manager.copy.max.bytes.per.second", LONG, FOREVER, at_least(1), CLUSTER, inert=TIERED),
    key("remote.log.manager.copy.quota.window.num", INT, 11, at_least(1), inert=TIERED),
    key("remote.log.manager.copy.quota.window.size.seconds", INT, 1, at_least(1), inert=TIERED),
    key("remote.log.manager.expiration.thread.pool.size", INT, 10, at_least(1), CLUSTER, inert=TIERED),
    key("remote.log.manager.fetch.max.bytes.per.second", LONG, FOREVER, at_least(1), CLUSTER, inert=TIERED),
    key("remote.log.manager.fetch.quota.window.num", INT, 11, at_least(1), inert=TIERED),
    key("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, at_least(1), inert=TIERED),
    key("remote.log.manager.follower.thread.pool.size", INT, 2, at_least(1), CLUSTER, inert=TIERED),
    key("remote.log.manager.task.interval.ms", LONG, 30_000, at_least(1), inert=TIERED),
    key("remote.log.manager.task.retry.backoff.max.ms", LONG, 30_000, at_least(1), internal=True, inert=TIERED),
    key("remote.log.manager.task.retry.backoff.ms", LONG, 500, at_least(1), internal=True, inert=TIERED),
    key("remote.log.manager.task.retry.jitter", DOUBLE, 0.2, between(0, 0.5), internal=True, inert=TIERED),
    key("remote.log.manager.thread.pool.size", INT, 2, at_least(1), inert=TIERED),
    key("remote.log.metadata.custom.metadata.max.bytes", INT, 128, at_least(0), inert=TIERED),
    key(
        "remote.log.metadata.manager.class.name",
        STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        non_empty,
        inert=TIERED,
    ),
    key("remote.log.metadata.manager.class.path", STRING, inert=TIERED),
    key("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", non_empty, inert=TIERED),
    key("remote.log.metadata.manager.listener.name", STRING, None, non_empty, inert=TIERED),
    key("remote.log.reader.max.pending.tasks", INT, 100, at_least(1), inert=TIERED),
    key("remote.log.reader.threads", INT, 10, at_least(1), CLUSTER, inert=TIERED),
    key("remote.log.storage.manager.class.name", STRING, None, non_empty, inert=TIERED),
    key("remote.log.storage.manager.class.path", STRING, inert=TIERED),
    key("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", non_empty, inert=TIERED),
    key("remote.log.storage.system.enable", BOOLEAN, False),
)
