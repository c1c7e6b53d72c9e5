"""Keys of the broker about share groups (KIP-932) and their dead letter queues."""

from __future__ import annotations

from .checks import at_least, between, list_of
from .inert import SHARE_GROUPS
from .key import BOOLEAN, CLUSTER, INT, LIST, SHORT, STRING, key

KEYS = (
    key("errors.deadletterqueue.auto.create.topics.enable", BOOLEAN, False, scope=CLUSTER, inert=SHARE_GROUPS),
    key("errors.deadletterqueue.topic.name.prefix", STRING, "dlq.", scope=CLUSTER, inert=SHARE_GROUPS),
    key("group.share.assignment.interval.ms", INT, 1000, at_least(0), CLUSTER, inert=SHARE_GROUPS),
    key("group.share.assignor.offload.enable", BOOLEAN, True, scope=CLUSTER, internal=True, inert=SHARE_GROUPS),
    key("group.share.assignors", LIST, ("simple",), list_of(empty=False), inert=SHARE_GROUPS),
    key("group.share.delivery.count.limit", INT, 5, between(2, 10), inert=SHARE_GROUPS),
    key(
        "group.share.dlq.manager.class.name",
        STRING,
        "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager",
        internal=True,
        inert=SHARE_GROUPS,
    ),
    key("group.share.heartbeat.interval.ms", INT, 5000, at_least(1), inert=SHARE_GROUPS),
    key("group.share.initialize.retry.interval.ms", INT, 30_000, at_least(1), internal=True, inert=SHARE_GROUPS),
    key("group.share.max.assignment.interval.ms", INT, 15_000, at_least(0), inert=SHARE_GROUPS),
    key("group.share.max.delivery.count.limit", INT, 10, between(5, 25), inert=SHARE_GROUPS),
    key("group.share.max.heartbeat.interval.ms", INT, 15_000, at_least(1), inert=SHARE_GROUPS),
    key("group.share.max.partition.max.record.locks", INT, 4000, between(2000, 10_000), inert=SHARE_GROUPS),
    key("group.share.max.record.lock.duration.ms", INT, 60_000, between(30_000, 3_600_000), inert=SHARE_GROUPS),
    key("group.share.max.session.timeout.ms", INT, 60_000, at_least(1), inert=SHARE_GROUPS),
    key("group.share.max.share.sessions", INT, 2000, at_least(1), inert=SHARE_GROUPS),
    key("group.share.max.size", INT, 200, between(1, 1000), inert=SHARE_GROUPS),
    key("group.share.min.assignment.interval.ms", INT, 0, at_least(0), inert=SHARE_GROUPS),
    key("group.share.min.delivery.count.limit", INT, 2, between(2, 5), inert=SHARE_GROUPS),
    key("group.share.min.heartbeat.interval.ms", INT, 5000, at_least(1), inert=SHARE_GROUPS),
    key("group.share.min.partition.max.record.locks", INT, 100, between(100, 2000), inert=SHARE_GROUPS),
    key("group.share.min.record.lock.duration.ms", INT, 15_000, between(1000, 30_000), inert=SHARE_GROUPS),
    key("group.share.min.session.timeout.ms", INT, 45_000, at_least(1), inert=SHARE_GROUPS),
    key("group.share.partition.max.record.locks", INT, 2000, between(100, 10_000), inert=SHARE_GROUPS),
    key(
        "group.share.persister.class.name",
        STRING,
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        internal=True,
        inert=SHARE_GROUPS,
    ),
    key("group.share.record.lock.duration.ms", INT, 30_000, between(1000, 3_600_000), inert=SHARE_GROUPS),
    key("group.share.session.timeout.ms", INT, 45_000, at_least(1), inert=SHARE_GROUPS),
    key("share.coordinator.append.linger.ms", INT, -1, at_least(-1), inert=SHARE_GROUPS),
    key("share.coordinator.cached.buffer.max.bytes", INT, 1_048_588, at_least(524_288), CLUSTER, inert=SHARE_GROUPS),
    key(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        INT,
        300_000,
        at_least(1),
        internal=True,
        inert=SHARE_GROUPS,
    ),
    key("share.coordinator.load.buffer.size", INT, 5_242_880, at_least(1), inert=SHARE_GROUPS),
    key("share.coordinator.snapshot.update.records.per.snapshot", INT, 500, between(0, 500), inert=SHARE_GROUPS),
    key("share.coordinator.state.topic.compression.codec", INT, 0, inert=SHARE_GROUPS),
    key("share.coordinator.state.topic.min.isr", SHORT, 2, at_least(1), inert=SHARE_GROUPS),
    key("share.coordinator.state.topic.num.partitions", INT, 50, at_least(1), inert=SHARE_GROUPS),
    key(
        "share.coordinator.state.topic.prune.interval.ms", INT, 300_000, at_least(1), internal=True, inert=SHARE_GROUPS
    ),
    key("share.coordinator.state.topic.replication.factor", SHORT, 3, at_least(1), inert=SHARE_GROUPS),
    key("share.coordinator.state.topic.segment.bytes", INT, 104_857_600, at_least(1), inert=SHARE_GROUPS),
    key("share.coordinator.threads", INT, 1, at_least(1), inert=SHARE_GROUPS),
    key("share.coordinator.write.timeout.ms", INT, 5000, at_least(1), inert=SHARE_GROUPS),
    key("share.fetch.purgatory.purge.interval.requests", INT, 1000, inert=SHARE_GROUPS),
)
