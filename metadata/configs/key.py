"""The definition of a configuration key: a row of the tables."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from .checks import Check
from .values import ConfigType, InvalidConfig, Value, parse

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
