"""Broker configs for streams groups (KIP-1071)."""

from __future__ import annotations

from .checks import at_least, list_of
from .inert import DESCRIPTIONS, NO_WARMUP_TASKS, STREAMS_ASSIGNOR, STREAMS_AT_ONCE, STREAMS_BOUNDS
from .key import BOOLEAN, CLASS, CLUSTER, INT, LIST, LONG, UNLIMITED, key

KEYS = (
    key("group.streams.acceptable.recovery.lag", LONG, 10_000, at_least(0), internal=True),
    key("group.streams.assignment.interval.ms", INT, 1000, at_least(0), CLUSTER),
    key("group.streams.assignor.offload.enable", BOOLEAN, True, scope=CLUSTER, internal=True, inert=STREAMS_AT_ONCE),
    key("group.streams.assignors", LIST, ("sticky",), list_of(empty=False), inert=STREAMS_ASSIGNOR),
    key("group.streams.heartbeat.interval.ms", INT, 5000, at_least(1)),
    key("group.streams.initial.rebalance.delay.ms", INT, 3000, at_least(0)),
    key("group.streams.max.assignment.interval.ms", INT, 15_000, at_least(0), inert=STREAMS_BOUNDS),
    key("group.streams.max.heartbeat.interval.ms", INT, 15_000, at_least(1), inert=STREAMS_BOUNDS),
    key("group.streams.max.session.timeout.ms", INT, 60_000, at_least(1), inert=STREAMS_BOUNDS),
    key("group.streams.max.size", INT, UNLIMITED, at_least(1)),
    key("group.streams.max.standby.replicas", INT, 2, at_least(0), inert=STREAMS_BOUNDS),
    key("group.streams.max.warmup.replicas", INT, 20, at_least(0), internal=True, inert=STREAMS_BOUNDS),
    key("group.streams.min.assignment.interval.ms", INT, 0, at_least(0), inert=STREAMS_BOUNDS),
    key("group.streams.min.heartbeat.interval.ms", INT, 5000, at_least(1), inert=STREAMS_BOUNDS),
    key("group.streams.min.session.timeout.ms", INT, 45_000, at_least(1), inert=STREAMS_BOUNDS),
    key("group.streams.min.task.offset.interval.ms", INT, 15_000, at_least(1), internal=True, inert=STREAMS_BOUNDS),
    key("group.streams.num.standby.replicas", INT, 0, at_least(0)),
    key("group.streams.num.warmup.replicas", INT, 2, at_least(0), internal=True, inert=NO_WARMUP_TASKS),
    key("group.streams.rack.aware.assignment.tags", LIST, (), list_of()),
    key("group.streams.session.timeout.ms", INT, 45_000, at_least(1)),
    key("group.streams.task.offset.interval.ms", INT, 60_000, at_least(1), internal=True),
    key("group.streams.topology.description.plugin.class", CLASS, inert=DESCRIPTIONS),
)
