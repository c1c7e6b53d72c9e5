"""Rules for several values of a broker together. A rule is a small function that returns an error text, or None.

The texts are Kafka's. Rules about listeners need parsed addresses and are in the server's listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from .broker import LISTENER_ONLY
from .broker_values import LISTENER_PREFIX, BrokerValues, retention_ms, roll_jitter_ms, roll_ms
from .key import Scope
from .tables import BROKER
from .values import InvalidConfig, Value

# The update modes of broker configs: which can change while the broker runs, and for which scope (KIP-226).
#
# A read-only key cannot. A per-broker key can be set for one broker, not as the default of all. A TLS key can be set
# only with a listener prefix, as `listener.name.<listener>.<key>`. An unknown key can be set: it is for a plug-in.


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


def _number(value: Value) -> float:
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
    return "log.roll.ms must be greater than or equal to 1" if _number(roll_ms(values)) < 1 else None


def _jitter(values: BrokerValues) -> str | None:
    return "log.roll.jitter.ms must be greater than or equal to 0" if _number(roll_jitter_ms(values)) < 0 else None


def _retention(values: BrokerValues) -> str | None:
    if retention_ms(values) == 0:
        return "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    return None


def _cleaner_memory(values: BrokerValues) -> str | None:
    threads = int(_number(values.get("log.cleaner.threads")))
    if threads and _number(values.get("log.cleaner.dedupe.buffer.size")) // threads > _MIB:
        return None
    return "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."


def _replica_waits(values: BrokerValues) -> str | None:
    wait_ms = _number(values.get("replica.fetch.wait.max.ms"))
    if wait_ms > _number(values.get("replica.socket.timeout.ms")):
        return (
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary "
            "socket timeouts"
        )
    if wait_ms > _number(values.get("replica.lag.time.max.ms")):
        return (
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent "
            "frequent changes in ISR"
        )
    return None


def _queued_bytes(values: BrokerValues) -> str | None:
    queued = _number(values.get("queued.max.request.bytes"))
    if queued <= 0 or queued >= _number(values.get("socket.request.max.bytes")):
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
    idle_ms = _number(values.get("connections.max.idle.ms"))
    delay_ms = _number(values.get("connection.failed.authentication.delay.ms"))
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


def _compaction_lags(values: BrokerValues) -> str | None:
    low = _number(values.get("log.cleaner.min.compaction.lag.ms"))
    high = _number(values.get("log.cleaner.max.compaction.lag.ms"))
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
_UNPREFIXED_RULES: tuple[Rule, ...] = (_one_id, _classic_groups, _compaction_lags)

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
        if _number(values.get(low)) > _number(values.get(high)):
            yield f"{high} must be greater than or equal to {low}"
    for kind in ("consumer", "share", "streams"):
        heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if _number(values.get(heartbeat)) >= _number(values.get(session)):
            yield f"{heartbeat} must be less than {session}"
    assignors = values.get("group.share.assignors")
    assert isinstance(assignors, tuple)
    if len(assignors) != 1:
        yield f"group.share.assignors must contain exactly one assignor, but found {len(assignors)}"


# Validation of dynamic configuration changes on a running broker (KIP-226).


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
