"""Configs of a group (KIP-848, KIP-932, KIP-1071). `broker` is the broker's key for the default."""

from __future__ import annotations

from .checks import at_least, list_of, one_of, share_auto_offset_reset
from .key import key
from .values import BOOLEAN, INT, LIST, LONG, STRING

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
