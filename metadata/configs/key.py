"""What a row of the tables says of a configuration key."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from .checks import Check
from .values import ConfigType, InvalidConfig, Value, parse


class ResourceType(IntEnum):
    """What configurations belong to; the numbers are those of the wire and of ConfigRecord."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Scope(Enum):
    """How a broker's key may change while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class _NoDefault(Enum):
    NO_DEFAULT = "no default"


NO_DEFAULT = _NoDefault.NO_DEFAULT

# Words for the rows of the tables.
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
    broker: str | None  # of a topic's or group's key: the broker's key that gives its default
    inert: str | None  # why setting it changes nothing here; None when it acts
    internal: bool  # not shown unless set
    dynamic_only: bool  # unknown to server.properties: only AlterConfigs sets it

    @property
    def required(self) -> bool:
        return self.default is NO_DEFAULT

    @property
    def default_value(self) -> Value:
        return None if self.default is NO_DEFAULT else self.default

    def parse(self, text: str) -> Value:
        """The typed and checked value of a text; raises InvalidConfig."""
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
    """One row of a table."""
    return ConfigKey(name, config_type, default, check, scope, broker, inert, internal, dynamic_only)


def table(*rows: tuple[ConfigKey, ...]) -> dict[str, ConfigKey]:
    """The keys of several subjects in the order of their names. A default must pass the key's own check."""
    keys = {row.name: row for row in sorted((row for subject in rows for row in subject), key=lambda row: row.name)}
    if len(keys) != sum(map(len, rows)):
        raise InvalidConfig("a configuration key stands in two tables")
    return keys
