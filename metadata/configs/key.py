"""The definition of a configuration key: the type of its values, their checks, and the row of a table.

- `ConfigType`, `parse`, `to_text`: types of values, with Kafka's error texts.
- `at_least` to `quorum_voters`: validators of values beyond their type.
- `THREADS` to `TEST_ONLY`: reasons why a key has no effect.
- `ConfigKey`: one key; `key` and `table` make the tables of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum

from ...protocol.errors import ErrorCode

# ---- types of values
#
# | type | in Python | text |
# |---|---|---|
# | BOOLEAN | bool | true, false, in any case |
# | INT, SHORT, LONG | int | a decimal number that fits 32, 16 or 64 bits |
# | DOUBLE | float | a decimal number, NaN or Infinity, shown as Java shows it |
# | STRING, CLASS | str | unchanged; a CLASS names a Java class, which is never loaded |
# | LIST | tuple of str | comma separated; space around a comma is ignored |
# | PASSWORD | Password | never shown |
#
# Space at both ends of a text is ignored. A key without a value has None.


class ConfigType(IntEnum):
    """The type of a config, with the codes of DescribeConfigs (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True)
class Password:
    """A secret. Only `value` returns its text, so that it appears in no log line."""

    value: str

    def __str__(self) -> str:
        return "[hidden]"

    __repr__ = __str__


Value = bool | int | float | str | tuple[str, ...] | Password | None


class InvalidConfig(ValueError):
    """An invalid configuration. The text is for the client or operator; `error` is the error code."""

    def __init__(self, message: str, error: ErrorCode = ErrorCode.INVALID_CONFIG) -> None:
        super().__init__(message)
        self.error = error


_BITS = {ConfigType.INT: 32, ConfigType.SHORT: 16, ConfigType.LONG: 64}
# Java trims every character up to the space, control characters included.
_BLANK = "".join(map(chr, range(0x21)))
_INTEGER = re.compile(r"([+-]?)0*(\d+)")
_MOST_DIGITS = 19
_DECIMAL = re.compile(r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?|NaN|Infinity)", re.ASCII)
_BESIDE_COMMA = " \t\n\r\f\v"


def invalid_value(name: str, value: object, why: str = "") -> InvalidConfig:
    """Returns Kafka's exception for an invalid value: the key, the value and the reason."""
    return InvalidConfig(f"Invalid value {value} for configuration {name}{': ' if why else ''}{why}")


def parse(name: str, text: str, config_type: ConfigType) -> Value:
    """Returns the typed value of a text; raises InvalidConfig if it does not have the type."""
    trimmed = text.strip(_BLANK)
    match config_type:
        case ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise invalid_value(name, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            number = _whole_number(trimmed)
            limit = 1 << _BITS[config_type] - 1
            if number is None or not -limit <= number < limit:
                raise invalid_value(name, text, f"Not a number of type {config_type.name}")
            return number
        case ConfigType.DOUBLE:
            if not _DECIMAL.fullmatch(trimmed):
                raise invalid_value(name, text, "Not a number of type DOUBLE")
            return float(trimmed.rstrip("fFdD") if trimmed[-1] in "fFdD" else trimmed)
        case ConfigType.LIST:
            return tuple(element.strip(_BESIDE_COMMA) for element in trimmed.split(",")) if trimmed else ()
        case ConfigType.PASSWORD:
            return Password(trimmed)
        case _:
            return trimmed


def _whole_number(text: str) -> int | None:
    """Parses a number; None for other texts, or more digits than any type has: Python refuses to parse thousands."""
    found = _INTEGER.fullmatch(text)
    if found is None or len(found.group(2)) > _MOST_DIGITS:
        return None
    return int(found.group(1) + found.group(2))


def to_text(value: Value) -> str | None:
    """Returns the text of a typed value for a response; a password stays hidden."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def shown(value: Value) -> str:
    """Returns a parsed value in the form of Kafka's error texts."""
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return "null" if value is None else str(to_text(value))


def java_double(value: float) -> str:
    """Formats a double as Java does: 0.5, 1.0E7, 1.7976931348623157E308."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = repr(value)
        return plain if "e" not in plain else f"{value:f}"
    digits = repr(abs(value)).split("e")[0].replace(".", "").strip("0")
    exponent = f"{value:.{len(digits) - 1}e}".partition("e")[2]
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"


# ---- validators
#
# A validator gets the key's name and the typed value, and raises InvalidConfig with Kafka's text. A list validator
# may request the list without duplicates, as Kafka does.

_MOST_PORT = 65535
_MOST_ID = 2**31 - 1

Check = Callable[[str, Value], None]


def at_least(low: float) -> Check:
    return between(low, None)


def between(low: float, high: float | None) -> Check:
    def check(name: str, value: Value) -> None:
        if value is None:
            raise invalid_value(name, "null", "Value must be non-null")
        assert isinstance(value, int | float)
        if value < low:
            raise invalid_value(name, shown(value), f"Value must be at least {low}")
        if high is not None and value > high:
            raise invalid_value(name, shown(value), f"Value must be no more than {high}")

    return check


def port(name: str, value: Value) -> None:
    """Validates a port: 0 for any free port, None for no listener."""
    if value is not None:
        between(0, _MOST_PORT)(name, value)


def one_of(*words: str) -> Check:
    def check(name: str, value: Value) -> None:
        if value not in words:
            raise invalid_value(name, shown(value), f"String must be one of: {', '.join(words)}")

    return check


def one_of_ignoring_case(*words: str) -> Check:
    def check(name: str, value: Value) -> None:
        if not isinstance(value, str) or value.upper() not in words:
            raise invalid_value(name, shown(value), f"String must be one of (case insensitive): {', '.join(words)}")

    return check


def list_of(*words: str, empty: bool = True, null: bool = False) -> Check:
    """Returns a validator for a list of non-empty words, or of the given words. `empty`, `null`: the list may be so."""

    def check(name: str, value: Value) -> None:
        if value is None:
            if null:
                return
            raise InvalidConfig(f"Configuration '{name}' values must not be null.")
        assert isinstance(value, tuple)
        if not value and not empty:
            valid = f"[{', '.join(words)}]" if words else "any non-empty value"
            raise InvalidConfig(f"Configuration '{name}' must not be empty. Valid values include: {valid}")
        for element in value:
            if not element:
                raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
            if words:
                one_of(*words)(name, element)

    check.drops_duplicates = True  # type: ignore[attr-defined]
    return check


def non_null(name: str, value: Value) -> None:
    if value is None:
        raise invalid_value(name, "null", "entry must be non null")


def non_empty(name: str, value: Value) -> None:
    if value == "":
        raise invalid_value(name, "", "String must be non-empty")


def gzip_level(name: str, value: Value) -> None:
    if not (isinstance(value, int) and (1 <= value <= 9 or value == -1)):
        raise invalid_value(name, shown(value), "Value must be between 1 and 9 or equal to -1")


_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


def throttled_replicas(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    proposed = [element.strip() for element in value]
    if "".join(proposed) != "*" and not all(_REPLICA.fullmatch(element) for element in proposed):
        raise invalid_value(
            name,
            shown(value),
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )


_ISO_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?:T(?=[-+.\d])(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?"
    r"(?:(?P<seconds>[-+]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
_UNIT_SECONDS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}


def duration_seconds(text: str) -> float | None:
    """Returns the length of an ISO 8601 duration such as PT1H30M; None if it is invalid."""
    found = _ISO_DURATION.fullmatch(text)
    if not found or not any(found.group(unit) for unit in _UNIT_SECONDS):
        return None
    total = sum(float((found.group(u) or "0").replace(",", ".")) * size for u, size in _UNIT_SECONDS.items())
    return -total if found.group("sign") == "-" else total


def share_auto_offset_reset(name: str, value: Value) -> None:
    text = str(value)
    _, found, duration = text.partition("by_duration:")
    if found and text.startswith("by_duration:"):
        seconds = duration_seconds(duration)
        if seconds is not None and seconds >= 0:
            return
    elif text in ("earliest", "latest"):
        return
    raise invalid_value(
        name,
        text,
        f"Invalid value `{text}` for configuration {name}. "
        "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
    )


# An address as Kafka's clients accept it: host:port or [IPv6]:port, with or without a protocol.
_ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:0*([0-9]{1,10})")


def host_and_port(address: str) -> tuple[str, int] | None:
    """Returns the host and port of `host:port`; None if there is no port."""
    found = _ADDRESS.fullmatch(address)
    return (found.group(1), int(found.group(2))) if found else None


def quorum_bootstrap_servers(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    for server in value:
        if host_and_port(server) is None:
            form = 'Each entry should be in the form "{host}:{port}"'
            raise InvalidConfig(f"Failed to parse host name from {server} for the configuration {name}. {form}")
        _check_port(name, server)


def quorum_voters(name: str, value: Value) -> None:
    form = "Each entry should be in the form `{id}@{host}:{port}`."
    assert isinstance(value, tuple)
    for voter in value:
        parts = voter.rstrip("@").split("@")
        if len(parts) != 2:
            raise InvalidConfig(f"Invalid configuration value for {name}. {form}")
        if not re.fullmatch(r"[+-]?0*\d{1,10}", parts[0]) or not -_MOST_ID - 1 <= int(parts[0]) <= _MOST_ID:
            raise InvalidConfig(f"Failed to parse voter ID as an integer from {parts[0]}")
        if host_and_port(parts[1]) is None:
            raise InvalidConfig(f"Failed to parse host name from entry {voter} for the configuration {name}. {form}")
        _check_port(name, parts[1])


def _check_port(name: str, address: str) -> None:
    found = host_and_port(address)
    if found is not None and found[1] > _MOST_PORT:
        raise InvalidConfig(f"{name}: the port of {address} must be from 0 to {_MOST_PORT}")


# ---- reasons
#
# Reasons why a key has no effect: the end of the sentence "it has no effect, because ...".
#
# A key without a reason takes effect. When a feature is implemented, the reasons of its keys are removed.


THREADS = "one event loop does the work, so there are no thread pools to size"
BUFFERS = "memory is allocated when it is needed, not from a buffer of a fixed size"
WAITING = "delayed responses are freed as soon as they are sent, so there is nothing to purge"
OWN_TIMES = "requests between nodes have their own timeouts"
OWN_BUFFERS = "the operating system sizes the buffers of connections between nodes"
ONE_FLUSH = "records that are appended to the metadata log during a flush share the next flush, without a further wait"
IN_MEMORY = "indexes of remote segments are in memory, and the least recently used ones go first"
FOUR_POOLS = "copies, deletions, reads and followers have thread pools with keys of their own"
BETWEEN_BROKERS = "the metadata of remote segments is exchanged on the listener between brokers"
KERBEROS = "the Kerberos library gets and renews the tickets of logins between nodes, from the keytab"
TOKEN_CHECKS = "sasl.server.callback.handler.class names the class that checks tokens"
OPENSSL = "OpenSSL takes the place of Java's TLS providers"
TLS_VERSIONS = "ssl.enabled.protocols names the TLS versions that are offered"
TWO_PHASE_COMMIT = "two-phase commit (KIP-939) is not supported: it is still unstable in Kafka"
CONSUMER_AT_ONCE = "assignments of consumer groups are computed before the response is sent"
SHARE_BOUNDS = "it is only a limit for the config of the same name of share groups"
SHARE_AT_ONCE = "assignments of share groups are computed before the response is sent"
ONE_ASSIGNOR = "share groups have only the simple assignor"
STREAMS_BOUNDS = "it is only a limit for the config of the same name of streams groups"
STREAMS_AT_ONCE = "assignments of streams groups are computed before the response is sent"
STREAMS_ASSIGNOR = "streams groups have only the sticky assignor"
NO_WARMUP_TASKS = "warm-up tasks are not assigned; Kafka 4.4 does not assign them either"
QUOTAS = "moves of replicas between log directories are not throttled"
DESCRIPTIONS = "topology descriptions are stored with their groups, whatever class is named"
JAVA = "a Java class cannot be loaded here"
COUNTERS = "metrics are plain counters; the monitoring system computes rates"
ONE_TURN = "a group coordinator writes all records of one event loop iteration together"
WITH_RECOVERY_POINTS = (
    "log start offsets are written with the recovery points (log.flush.offset.checkpoint.interval.ms)"
)
TEST_ONLY = "the key is only for Apache Kafka's own tests"


# ---- keys


class ResourceType(IntEnum):
    """The type of a configuration resource, with the codes of the protocol and of ConfigRecord."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @classmethod
    def named(cls, code: int) -> str:
        """Returns the name of the type with the code; UNKNOWN for others, as in Kafka."""
        return next((kind.name for kind in cls if kind == code), cls.UNKNOWN.name)


class Scope(Enum):
    """The update mode of a broker's key (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class _NoDefault(Enum):
    NO_DEFAULT = "no default"


NO_DEFAULT = _NoDefault.NO_DEFAULT

# Constants for the rows of the tables.
BOOLEAN, STRING, INT, SHORT, LONG = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
)
DOUBLE, LIST, CLASS, PASSWORD = ConfigType.DOUBLE, ConfigType.LIST, ConfigType.CLASS, ConfigType.PASSWORD
PER_BROKER, CLUSTER = Scope.PER_BROKER, Scope.CLUSTER_WIDE
UNLIMITED = 2**31 - 1
FOREVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ConfigKey:
    name: str
    type: ConfigType
    default: Value | _NoDefault
    check: Check | None
    scope: Scope
    broker: str | None  # of a topic's or group's key: the broker's key for its default
    inert: str | None  # why the key has no effect; None if it has one
    internal: bool  # listed only if set
    dynamic_only: bool  # unknown in server.properties: only AlterConfigs can set it

    @property
    def required(self) -> bool:
        return self.default is NO_DEFAULT

    @property
    def default_value(self) -> Value:
        return None if self.default is NO_DEFAULT else self.default

    def parse(self, text: str) -> Value:
        """Returns the typed and validated value of a text; raises InvalidConfig."""
        value = parse(self.name, text, self.type)
        if isinstance(value, tuple) and getattr(self.check, "drops_duplicates", False):
            value = tuple(dict.fromkeys(value))
        if self.check is not None:
            self.check(self.name, value)
        return value


def key(
    name: str,
    config_type: ConfigType,
    default: Value | _NoDefault = None,
    check: Check | None = None,
    scope: Scope = Scope.READ_ONLY,
    *,
    broker: str | None = None,
    inert: str | None = None,
    internal: bool = False,
    dynamic_only: bool = False,
) -> ConfigKey:
    """Returns one row of a table."""
    return ConfigKey(name, config_type, default, check, scope, broker, inert, internal, dynamic_only)


def table(*rows: tuple[ConfigKey, ...]) -> dict[str, ConfigKey]:
    """Returns the keys of several tables ordered by name. A default must pass the key's own validator."""
    keys = {row.name: row for row in sorted((row for subject in rows for row in subject), key=lambda row: row.name)}
    if len(keys) != sum(map(len, rows)):
        raise InvalidConfig("a configuration key is in two tables")
    return keys
