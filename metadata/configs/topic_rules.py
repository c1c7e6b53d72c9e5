"""Rules for the values of one topic together with the broker's defaults. Texts of errors are Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .resources import TOPIC
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
