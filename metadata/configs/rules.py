"""Rules for several config values together: those of a topic, a group, a client metrics subscription, or a broker.

A rule about one value is a validator of its key (key.py). Texts of errors are Kafka's.

- `validate_topic_configs`: the values of one topic together with the broker's defaults.
- `validate_group_configs`: the values of one group, within the broker's bounds.
- `validate_client_metrics_configs`: a client metrics subscription.
- `validate_dynamic_names`, `usable_dynamic_configs`: which keys of a broker can change while it runs.
- `validate_broker_configs`, `validate_broker_change`: several values of a broker together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from ...protocol.errors import ErrorCode
from .broker import LISTENER_ONLY
from .broker_values import LISTENER_PREFIX, BrokerValues, retention_ms, roll_jitter_ms, roll_ms
from .key import InvalidConfig, Scope, Value, invalid_value
from .resources import BROKER, CLIENT_METRICS, GROUP, TOPIC

# ---- topics

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


# ---- groups
#
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


# ---- client metrics
#
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


# The update modes of broker configs: which can change while the broker runs, and for which scope (KIP-226).
#
# A read-only key cannot. A per-broker key can be set for one broker, not as the default of all. A TLS key can be set
# only with a listener prefix, as `listener.name.<listener>.<key>`. An unknown key can be set: it is for a plug-in.


# ---- update modes of brokers' keys
#
# Keys that stay cluster-wide even with a listener prefix.
_CLUSTER_WIDE_OF_LISTENERS = ("max.connections", "max.connection.creation.rate", "num.network.threads")


def _of_type(name: str, text: str) -> str | None:
    found = LISTENER_PREFIX.fullmatch(name)
    key = BROKER.get(found.group(1) if found else name)
    if key is None or key.scope is Scope.READ_ONLY:
        return None
    try:
        key.parse(text)
    except InvalidConfig as rejected:
        return str(rejected)
    return None


def _is_read_only(name: str) -> bool:
    return name in BROKER and BROKER[name].scope is Scope.READ_ONLY


def _is_per_broker(name: str) -> bool:
    found = LISTENER_PREFIX.fullmatch(name)
    if found:
        return found.group(1) not in _CLUSTER_WIDE_OF_LISTENERS
    return name in BROKER and BROKER[name].scope is Scope.PER_BROKER


def validate_dynamic_names(configs: Mapping[str, str], *, per_broker: bool) -> None:
    """Raises InvalidConfig if a key cannot be set in this scope, with Kafka's texts and order."""
    _reject("Cannot update these configs dynamically", filter(_is_read_only, configs))
    _reject(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        (name for name in configs if name in LISTENER_ONLY),
    )
    for name, text in configs.items():
        broken = _of_type(name, text)
        if broken:
            raise InvalidConfig(broken)
    if not per_broker:
        _reject(
            "Cannot update these configs at default cluster level, broker id must be specified",
            filter(_is_per_broker, configs),
        )


def _reject(words: str, names: Iterable[str]) -> None:
    found = list(names)
    if found:
        raise InvalidConfig(f"{words}: [{', '.join(found)}]")


def usable_dynamic_configs(
    configs: Mapping[str, str], *, per_broker: bool, rejected: Callable[[str, str], None]
) -> dict[str, str]:
    """Returns the stored values that can be applied; calls `rejected(name, why)` for each of the others."""
    usable: dict[str, str] = {}
    for name, text in configs.items():
        try:
            validate_dynamic_names({name: text}, per_broker=per_broker)
            usable[name] = text
        except InvalidConfig as why:
            rejected(name, str(why))
    return usable


# ---- brokers
#
# A rule is a small function that returns an error text, or None. Rules about listeners need parsed addresses and are
# in the server's listeners.

Rule = Callable[[BrokerValues], str | None]
_MIB = 1 << 20
#: The digits of a connection count, which is an INT.
_MOST_DIGITS = 10


def validate_broker_configs(values: BrokerValues, *, before: str = "") -> None:
    """Raises InvalidConfig for the first broken rule. `before` is the prefix of most rules' texts."""
    for rule in _RULES:
        broken = rule(values)
        if broken:
            raise InvalidConfig(before + broken)
    for broken in (*(rule(values) for rule in _UNPREFIXED_RULES), *_group_bounds(values)):
        if broken:
            raise InvalidConfig(broken)


def _broker_number(value: Value) -> float:
    assert isinstance(value, int | float)
    return value


def _one_id(values: BrokerValues) -> str | None:
    if values.get("node.id") == values.get("broker.id"):
        return None
    return (
        "`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated, "
        "please use `node.id` instead."
    )


def _rolls(values: BrokerValues) -> str | None:
    return "log.roll.ms must be greater than or equal to 1" if _broker_number(roll_ms(values)) < 1 else None


def _jitter(values: BrokerValues) -> str | None:
    return (
        "log.roll.jitter.ms must be greater than or equal to 0" if _broker_number(roll_jitter_ms(values)) < 0 else None
    )


def _retention(values: BrokerValues) -> str | None:
    if retention_ms(values) == 0:
        return "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    return None


def _cleaner_memory(values: BrokerValues) -> str | None:
    threads = int(_broker_number(values.get("log.cleaner.threads")))
    if threads and _broker_number(values.get("log.cleaner.dedupe.buffer.size")) // threads > _MIB:
        return None
    return "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."


def _replica_waits(values: BrokerValues) -> str | None:
    wait_ms = _broker_number(values.get("replica.fetch.wait.max.ms"))
    if wait_ms > _broker_number(values.get("replica.socket.timeout.ms")):
        return (
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary "
            "socket timeouts"
        )
    if wait_ms > _broker_number(values.get("replica.lag.time.max.ms")):
        return (
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent "
            "frequent changes in ISR"
        )
    return None


def _queued_bytes(values: BrokerValues) -> str | None:
    queued = _broker_number(values.get("queued.max.request.bytes"))
    if queued <= 0 or queued >= _broker_number(values.get("socket.request.max.bytes")):
        return None
    return "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"


def _some_may_connect(values: BrokerValues) -> str | None:
    overrides = connection_overrides(values.get("max.connections.per.ip.overrides"))
    if values.get("max.connections.per.ip") == 0 and not overrides:
        return "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
    return None


def connection_overrides(value: Value) -> dict[str, int]:
    """Parses max.connections.per.ip.overrides (`host:count,host:count`); raises InvalidConfig."""
    name = "max.connections.per.ip.overrides"
    found: dict[str, int] = {}
    for entry in str(value).split(",") if value else ():
        host, colon, count = entry.strip().rpartition(":")
        if not colon or not count.strip().isdecimal() or len(count.strip()) > _MOST_DIGITS:
            raise InvalidConfig(f"Error parsing configuration property '{name}': {entry.strip()!r} is not host:count")
        found[host.strip()] = int(count)
    return found


def _authentication_delay(values: BrokerValues) -> str | None:
    idle_ms = _broker_number(values.get("connections.max.idle.ms"))
    delay_ms = _broker_number(values.get("connection.failed.authentication.delay.ms"))
    if idle_ms < 0 or delay_ms < idle_ms:
        return None
    return (
        f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
        f"connections.max.idle.ms={idle_ms} to prevent failed authentication responses from timing out"
    )


def _classic_groups(values: BrokerValues) -> str | None:
    protocols = values.get("group.coordinator.rebalance.protocols")
    assert isinstance(protocols, tuple)
    return None if "classic" in protocols else "Disabling the 'classic' protocol is not supported."


def _cordoned(values: BrokerValues) -> str | None:
    cordoned = values.get("cordoned.log.dirs") or ()
    directories = values.get("log.dirs") or values.get("log.dir")
    assert isinstance(cordoned, tuple)
    assert isinstance(directories, tuple)
    if "*" in cordoned:
        return None if len(cordoned) == 1 else "When cordoned.log.dirs is set to *, it must not contain other values"
    missing = ", ".join(directory for directory in cordoned if directory not in directories)
    if not missing:
        return None
    return f"All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : {missing}"


def _auto_join(values: BrokerValues) -> str | None:
    roles = values.get("process.roles")
    assert isinstance(roles, tuple)
    if not values.get("controller.quorum.auto.join.enable") or "controller" in roles:
        return None
    return "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role."


def _broker_compaction_lags(values: BrokerValues) -> str | None:
    low = _broker_number(values.get("log.cleaner.min.compaction.lag.ms"))
    high = _broker_number(values.get("log.cleaner.max.compaction.lag.ms"))
    if low <= high:
        return None
    return f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"


_RULES: tuple[Rule, ...] = (
    _rolls,
    _jitter,
    _retention,
    _cleaner_memory,
    _replica_waits,
    _queued_bytes,
    _some_may_connect,
    _authentication_delay,
    _cordoned,
    _auto_join,
)
_UNPREFIXED_RULES: tuple[Rule, ...] = (_one_id, _classic_groups, _broker_compaction_lags)

# (smaller, larger, strictly): the order of group bounds, and of the group value within them.
_ORDERED = tuple(
    pair
    for kind in ("consumer", "share", "streams")
    for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
    for pair in (
        (f"group.{kind}.min.{what}", f"group.{kind}.max.{what}"),
        (f"group.{kind}.min.{what}", f"group.{kind}.{what}"),
        (f"group.{kind}.{what}", f"group.{kind}.max.{what}"),
    )
) + tuple(
    pair
    for what in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")
    for pair in (
        (f"group.share.{what}", f"group.share.max.{what}"),
        (f"group.share.min.{what}", f"group.share.{what}"),
    )
)
_AT_MOST = (
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    ("group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms"),
    ("group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas"),
    ("group.share.max.size", "group.share.max.share.sessions"),
)


def _group_bounds(values: BrokerValues) -> Iterator[str]:
    for low, high in _ORDERED + _AT_MOST:
        if _broker_number(values.get(low)) > _broker_number(values.get(high)):
            yield f"{high} must be greater than or equal to {low}"
    for kind in ("consumer", "share", "streams"):
        heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if _broker_number(values.get(heartbeat)) >= _broker_number(values.get(session)):
            yield f"{heartbeat} must be less than {session}"
    assignors = values.get("group.share.assignors")
    assert isinstance(assignors, tuple)
    if len(assignors) != 1:
        yield f"group.share.assignors must contain exactly one assignor, but found {len(assignors)}"


# Validation of dynamic configuration changes on a running broker (KIP-226).


# ---- changes of a running broker
#
# A thread count may change to between half and double of its value, as in Kafka. Here these threads do no work.
_THREADS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)


def validate_broker_change(current: BrokerValues, configs: Mapping[str, str], *, per_broker: bool) -> BrokerValues:
    """Returns the values after `configs` replaces this broker's dynamic values (`per_broker`) or the cluster-wide
    default.

    Raises InvalidConfig.
    """
    validate_dynamic_names(configs, per_broker=per_broker)
    if per_broker:
        after = BrokerValues(current.static, current.dynamic_default, configs)
    else:
        after = BrokerValues(current.static, configs, current.dynamic_broker)
    validate_broker_configs(after, before="requirement failed: ")
    for broken in (*_thread_counts(current, after), _cleaner_threads(current, after)):
        if broken:
            why = f"org.apache.kafka.common.config.ConfigException: {broken}"
            raise InvalidConfig(f"Invalid value {why} for configuration Invalid dynamic configuration")
    return after


def _thread_counts(current: BrokerValues, after: BrokerValues) -> list[str]:
    broken = []
    for name in _THREADS:
        old, new = current.get(name), after.get(name)
        assert isinstance(old, int)
        assert isinstance(new, int)
        failed = f"Dynamic thread count update validation failed for {name}={new}"
        if new != old and new < old // 2:
            broken.append(f"{failed}, value should be at least half the current value {old}")
        elif new != old and new > old * 2:
            broken.append(f"{failed}, value should not be greater than double the current value {old}")
    return broken


def _cleaner_threads(current: BrokerValues, after: BrokerValues) -> str | None:
    old, new = current.get("log.cleaner.threads"), after.get("log.cleaner.threads")
    assert isinstance(old, int)
    assert isinstance(new, int)
    if new < 1:
        return "Log cleaner threads should be at least 1"
    if new < old // 2:
        return f"Log cleaner threads cannot be reduced to less than half the current value {old}"
    if new > old * 2:
        return f"Log cleaner threads cannot be increased to more than double the current value {old}"
    return None
