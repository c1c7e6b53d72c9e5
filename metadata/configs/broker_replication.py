"""Broker configs for replicas, leaders and replication bandwidth."""

from __future__ import annotations

from .checks import at_least
from .inert import OWN_BUFFERS, QUOTAS, THREADS
from .key import BOOLEAN, CLUSTER, FOREVER, INT, LONG, STRING, key

KEYS = (
    key("alter.log.dirs.replication.quota.window.num", INT, 11, at_least(1), inert=QUOTAS),
    key("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, at_least(1), inert=QUOTAS),
    key("auto.leader.rebalance.enable", BOOLEAN, True),
    key("broker.heartbeat.interval.ms", INT, 2000),
    key("broker.session.timeout.ms", INT, 9000),
    key("controlled.shutdown.enable", BOOLEAN, True),
    key("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1)),
    key("num.replica.alter.log.dirs.threads", INT, inert=THREADS),
    key("num.replica.fetchers", INT, 1, at_least(1), CLUSTER),
    key("replica.fetch.backoff.ms", INT, 1000, at_least(0)),
    key("replica.fetch.max.bytes", INT, 1_048_576, at_least(0)),
    key("replica.fetch.min.bytes", INT, 1),
    key("replica.fetch.response.max.bytes", INT, 10_485_760, at_least(0)),
    key("replica.fetch.wait.max.ms", INT, 500),
    key("replica.high.watermark.checkpoint.interval.ms", LONG, 5000),
    key("replica.lag.time.max.ms", LONG, 30_000),
    key("replica.selector.class", STRING),
    key("replica.socket.receive.buffer.bytes", INT, 65_536, inert=OWN_BUFFERS),
    key("replica.socket.timeout.ms", INT, 30_000),
    key("replication.quota.window.num", INT, 11, at_least(1)),
    key("replication.quota.window.size.seconds", INT, 1, at_least(1)),
    key("unclean.leader.election.enable", BOOLEAN, False, scope=CLUSTER),
    key("unclean.leader.election.interval.ms", LONG, 300_000, at_least(1), internal=True),
    key("follower.replication.throttled.rate", LONG, FOREVER, at_least(0), CLUSTER, dynamic_only=True),
    key("leader.replication.throttled.rate", LONG, FOREVER, at_least(0), CLUSTER, dynamic_only=True),
    key(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        FOREVER,
        at_least(0),
        CLUSTER,
        dynamic_only=True,
        inert=QUOTAS,
    ),
)
