"""Rules for several values of a broker together. Texts of errors are Kafka's.

A rule is a small function that returns an error text, or None. Rules about listeners need parsed addresses and are
in the server's listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .broker_values import BrokerValues, retention_ms, roll_jitter_ms, roll_ms
from .values import InvalidConfig

if TYPE_CHECKING:
    from .values import Value

Rule = Callable[[BrokerValues], str | None]
_MIB = 1 << 20
#: The digits of a connection count, which is an INT.
_MOST_DIGITS = 10

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
