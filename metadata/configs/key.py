"""The definition of a configuration key: the row of a table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from .values import InvalidConfig, parse

if TYPE_CHECKING:
    from .checks import Check
    from .values import ConfigType, Value

UNLIMITED = 2**31 - 1
FOREVER = 2**63 - 1


class ConfigResourceType(IntEnum):
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
PER_BROKER, CLUSTER = Scope.PER_BROKER, Scope.CLUSTER_WIDE


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
