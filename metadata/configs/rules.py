"""Rules for the values of one topic together with the broker's defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ...protocol.errors import ErrorCode
from .broker_values import BrokerValues
from .tables import CLIENT_METRICS, GROUP, TOPIC
from .values import InvalidConfig, Value, invalid_value

Values = Mapping[str, Value]
_FROM_RETENTION = -2  # local.retention.*: the same as retention.*


def validate_topic_configs(
    configs: Mapping[str, str],
    defaults: Values,
    existing: Mapping[str, str] | None = None,
    tiered: bool = False,
) -> dict[str, Value]:
    """Validates the complete configs of a topic over the broker's `topic_defaults`. Returns the effective values.

    `existing` are its current configs; `tiered` is whether the broker has tiered storage. Raises InvalidConfig.
    """
    for name in configs:
        if name not in TOPIC:
            raise InvalidConfig(f"Unknown topic config name: {name}")
    values = dict(defaults) | {name: key.parse(configs[name]) for name, key in TOPIC.items() if name in configs}
    _compaction_lags(values)
    if values["remote.storage.enable"]:
        if not tiered:
            raise InvalidConfig(
                "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
            )
        for rule in _TIERED_RULES:
            rule(values)
    elif (existing or {}).get("remote.storage.enable", "").lower() == "true":
        _turning_off(values)
    return values


def lenient_topic_values(
    configs: Mapping[str, str], defaults: Values, rejected: Callable[[str, str], None]
) -> dict[str, Value]:
    """Returns the effective values of a topic. Invalid stored `configs` are replaced by the broker's values.

    Calls `rejected(name, why)` for each invalid one.
    """
    values = dict(defaults)
    for name, text in configs.items():
        try:
            if name in TOPIC:
                values[name] = TOPIC[name].parse(text)
            else:
                rejected(name, "no such key")
        except InvalidConfig as why:
            rejected(name, str(why))
    return values


def _topic_number(values: Values, name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value


def _compaction_lags(values: Values) -> None:
    low, high = _topic_number(values, "min.compaction.lag.ms"), _topic_number(values, "max.compaction.lag.ms")
    if low > high:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )


def _deletes(values: Values) -> None:
    if values["cleanup.policy"] not in ((), ("delete",)):
        raise InvalidConfig(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
        )


def _local_within(unit: str) -> Callable[[Values], None]:
    def rule(values: Values) -> None:
        name = f"local.retention.{unit}"
        total, local = _topic_number(values, f"retention.{unit}"), _topic_number(values, name)
        if total == -1 or local == _FROM_RETENTION or (unit == "bytes" and total < 0):
            return
        if local == -1:
            raise invalid_value(name, local, f"Value must not be -1 as retention.{unit} value is set as {total}.")
        if local > total:
            raise invalid_value(name, local, f"Value must not be more than retention.{unit} property value: {total}")

    return rule


def _copy_lag_within(unit: str) -> Callable[[Values], None]:
    def rule(values: Values) -> None:
        name = f"remote.copy.lag.{unit}"
        local = _topic_number(values, f"local.retention.{unit}")
        local = _topic_number(values, f"retention.{unit}") if local == _FROM_RETENTION else local
        lag = _topic_number(values, name)
        if lag > 0 and 0 <= local < lag:
            raise invalid_value(name, lag, f"Value must not exceed local.retention.{unit} (effective value: {local})")

    return rule


def _nothing_more_to_copy(values: Values) -> None:
    if not values["remote.log.copy.disable"]:
        return
    for unit in ("bytes", "ms"):
        local = _topic_number(values, f"local.retention.{unit}")
        if local not in (_FROM_RETENTION, _topic_number(values, f"retention.{unit}")):
            raise InvalidConfig(
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and `retention.{unit}` "
                "must be set to the identical value because there will be no more logs copied to the remote storage."
            )


def _turning_off(values: Values) -> None:
    if not values["remote.log.delete.on.disable"]:
        raise InvalidConfig(
            "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data "
            "and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want "
            "to disable remote storage and delete all remote data, please set "
            "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
        )


_TIERED_RULES = (
    _deletes,
    _local_within("bytes"),
    _local_within("ms"),
    _copy_lag_within("bytes"),
    _copy_lag_within("ms"),
    _nothing_more_to_copy,
)


# Rules for the values of one group, within the broker's bounds.


# The group's key, and the broker's keys for its bounds.
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


# Validation of client metrics subscriptions (KIP-714).


_INTERVAL_MS = range(100, 3_600_001)
_MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def validate_client_metrics_configs(name: str, configs: Mapping[str, str]) -> dict[str, Value]:
    """Returns the typed values of a subscription; raises InvalidConfig with Kafka's error."""
    if not name:
        raise InvalidConfig("Subscription name can't be empty", ErrorCode.INVALID_REQUEST)
    for unknown in configs:
        if unknown not in CLIENT_METRICS:
            raise InvalidConfig(f"Unknown client metrics configuration: {unknown}", ErrorCode.INVALID_REQUEST)
    values = {key: CLIENT_METRICS[key].parse(text) for key, text in configs.items()}
    interval = values.get("interval.ms")
    if interval is not None and interval not in _INTERVAL_MS:
        raise InvalidConfig(
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            ErrorCode.INVALID_REQUEST,
        )
    matches = values.get("match", ())
    assert isinstance(matches, tuple)
    for pattern in matches:
        _match(pattern)
    return values


def _match(pattern: str) -> None:
    parts = pattern.rstrip("=").split("=")
    if len(parts) != 2 or parts[0].strip() not in _MATCHED:
        raise InvalidConfig(f"Illegal client matching pattern: {pattern}")
    try:
        re.compile(parts[1].strip())
    except re.error:
        raise InvalidConfig(f"Illegal client matching pattern: {pattern}") from None
