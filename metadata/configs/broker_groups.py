"""Broker configs for group coordination: classic and consumer groups, committed offsets."""

from __future__ import annotations

from .checks import at_least, list_of, one_of_ignoring_case
from .inert import BUFFERS, CONSUMER_AT_ONCE, ONE_TURN, THREADS
from .key import BOOLEAN, CLUSTER, INT, LIST, LONG, SHORT, STRING, UNLIMITED, key

KEYS = (
    key("group.consumer.assignment.interval.ms", INT, 1000, at_least(0), CLUSTER),
    key("group.consumer.assignor.offload.enable", BOOLEAN, True, scope=CLUSTER, internal=True, inert=CONSUMER_AT_ONCE),
    key("group.consumer.assignors", LIST, ("uniform", "range"), list_of(empty=False)),
    key("group.consumer.heartbeat.interval.ms", INT, 5000, at_least(1)),
    key("group.consumer.max.assignment.interval.ms", INT, 15_000, at_least(0)),
    key("group.consumer.max.heartbeat.interval.ms", INT, 15_000, at_least(1)),
    key("group.consumer.max.session.timeout.ms", INT, 60_000, at_least(1)),
    key("group.consumer.max.size", INT, UNLIMITED, at_least(1)),
    key(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        one_of_ignoring_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    ),
    key("group.consumer.min.assignment.interval.ms", INT, 0, at_least(0)),
    key("group.consumer.min.heartbeat.interval.ms", INT, 5000, at_least(1)),
    key("group.consumer.min.session.timeout.ms", INT, 45_000, at_least(1)),
    key("group.consumer.regex.refresh.interval.ms", INT, 600_000, at_least(10_000), internal=True),
    key("group.consumer.session.timeout.ms", INT, 45_000, at_least(1)),
    key("group.coordinator.append.linger.ms", INT, -1, at_least(-1), inert=ONE_TURN),
    key("group.coordinator.background.threads", INT, 2, at_least(1), inert=THREADS),
    key("group.coordinator.cached.buffer.max.bytes", INT, 1_048_588, at_least(524_288), CLUSTER, inert=BUFFERS),
    key(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer", "streams"),
        list_of("consumer", "classic", "share", "streams", empty=False),
    ),
    key("group.coordinator.threads", INT, 4, at_least(1), inert=THREADS),
    key("group.initial.rebalance.delay.ms", INT, 3000),
    key("group.max.session.timeout.ms", INT, 1_800_000),
    key("group.max.size", INT, UNLIMITED, at_least(1)),
    key("group.min.session.timeout.ms", INT, 6000),
    key("offset.metadata.max.bytes", INT, 4096),
    key("offsets.commit.timeout.ms", INT, 5000, at_least(1)),
    key("offsets.load.buffer.size", INT, 5_242_880, at_least(1), inert=BUFFERS),
    key("offsets.retention.check.interval.ms", LONG, 600_000, at_least(1)),
    key("offsets.retention.minutes", INT, 10_080, at_least(1)),
    key("offsets.topic.compression.codec", INT, 0),
    key("offsets.topic.num.partitions", INT, 50, at_least(1)),
    key("offsets.topic.replication.factor", SHORT, 3, at_least(1)),
    key("offsets.topic.segment.bytes", INT, 104_857_600, at_least(1)),
)
