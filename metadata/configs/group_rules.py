"""Rules for the values of one group, within the broker's bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .resources import GROUP
from .values import InvalidConfig

if TYPE_CHECKING:
    from .broker_values import BrokerValues
    from .values import Value

_RANGES = (
    ("consumer.heartbeat.interval.ms", "group.consumer.{}.heartbeat.interval.ms"),
    ("consumer.session.timeout.ms", "group.consumer.{}.session.timeout.ms"),
    ("consumer.assignment.interval.ms", "group.consumer.{}.assignment.interval.ms"),
    ("share.heartbeat.interval.ms", "group.share.{}.heartbeat.interval.ms"),
    ("share.session.timeout.ms", "group.share.{}.session.timeout.ms"),
    ("share.record.lock.duration.ms", "group.share.{}.record.lock.duration.ms"),
    ("share.delivery.count.limit", "group.share.{}.delivery.count.limit"),
    ("share.partition.max.record.locks", "group.share.{}.partition.max.record.locks"),
    ("share.assignment.interval.ms", "group.share.{}.assignment.interval.ms"),
    ("streams.heartbeat.interval.ms", "group.streams.{}.heartbeat.interval.ms"),
    ("streams.session.timeout.ms", "group.streams.{}.session.timeout.ms"),
    ("streams.assignment.interval.ms", "group.streams.{}.assignment.interval.ms"),
)
_MAXIMA = (
    ("streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    ("streams.num.warmup.replicas", "group.streams.max.warmup.replicas"),
)
_MINIMA = (("streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms"),)
_TAGS = "streams.rack.aware.assignment.tags"
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"


def validate_group_configs(configs: Mapping[str, str], broker: BrokerValues) -> dict[str, Value]:
    """Returns the typed values of a group's complete configs; raises InvalidConfig."""
    for name in configs:
        if name not in GROUP:
            raise InvalidConfig(f"Unknown group config name: {name}")
    tags = [tag.strip() for tag in configs.get(_TAGS, "").split(",")]
    if len(set(tags)) != len(tags):
        raise InvalidConfig(f"{_TAGS} must not contain duplicate tag keys.")
    values = {name: key.parse(configs[name]) for name, key in GROUP.items() if name in configs}
    _bounds(values, broker)
    _assignor(values, broker)
    _sessions_exceed_heartbeats(values, broker)
    if str(values.get(_DEAD_LETTERS) or "").startswith("__"):
        raise InvalidConfig(f"{_DEAD_LETTERS}: DLQ topic name must not start with '__'")
    return values


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _bounds(values: Mapping[str, Value], broker: BrokerValues) -> None:
    for name, bound in _RANGES:
        low, high = _number(broker.get(bound.format("min"))), _number(broker.get(bound.format("max")))
        if name in values and not low <= _number(values[name]) <= high:
            raise InvalidConfig(f"{name} must be in the range {low} to {high} inclusive.")
    for name, bound in _MAXIMA:
        high = _number(broker.get(bound))
        if name in values and _number(values[name]) > high:
            raise InvalidConfig(f"{name} must be less than or equal to {high}")
    for name, bound in _MINIMA:
        low = _number(broker.get(bound))
        if name in values and _number(values[name]) < low:
            raise InvalidConfig(f"{name} must be greater than or equal to {low}")


def _assignor(values: Mapping[str, Value], broker: BrokerValues) -> None:
    registered = broker.get("group.streams.assignors")
    assert isinstance(registered, tuple)
    name = values.get("streams.assignor.name")
    if name is not None and name not in registered:
        raise InvalidConfig(
            f"streams.assignor.name '{name}' is not a registered task assignor. "
            f"Registered assignors are: [{', '.join(registered)}]."
        )


def _sessions_exceed_heartbeats(values: Mapping[str, Value], broker: BrokerValues) -> None:
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if session not in values and heartbeat not in values:
            continue
        session_ms = _number(values.get(session, broker.get(f"group.{session}")))
        if session_ms <= _number(values.get(heartbeat, broker.get(f"group.{heartbeat}"))):
            raise InvalidConfig(f"{session} must be greater than {heartbeat}")
