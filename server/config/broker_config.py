"""The broker's configuration: server.properties and --override, under dynamic values that change while it runs.

`get` gives a key's typed value and is called each time it is needed, so that a dynamic change is seen at once; code
that must react to a change subscribes. The values themselves, their types, checks and layers, are
`metadata/configs`.

No setting is required. A node without `node.id` and `process.roles` is an embedded one: it listens on
127.0.0.1:9092. A node whose quorum names no other node is a single node. It keeps one replica of the internal
topics, as in the server.properties that ships with Kafka; such values count as static ones.

Where Kafka loads a Java class, `load_class` loads a user's own one, `python:package.module:Name`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ...metadata.configs import (
    BrokerValues,
    InvalidConfig,
    ResourceType,
    Value,
    broker_key,
    is_removed,
    lenient_topic_values,
    suggestion,
    topic_defaults,
    usable_dynamic_configs,
    validate_broker_configs,
)
from ...storage.log.config import LogConfig
from .listeners import Listeners, read_listeners
from .properties import PREFIX, parse_properties, read_properties, resolved

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta
    from ...metadata.image import MetadataImage


_SAME = {
    "segment_ms": "segment.ms",
    "segment_jitter_ms": "segment.jitter.ms",
    "segment_index_bytes": "segment.index.bytes",
    "index_interval_bytes": "index.interval.bytes",
    "preallocate": "preallocate",
    "retention_ms": "retention.ms",
    "retention_bytes": "retention.bytes",
    "delete_retention_ms": "delete.retention.ms",
    "file_delete_delay_ms": "file.delete.delay.ms",
    "min_cleanable_dirty_ratio": "min.cleanable.dirty.ratio",
    "min_compaction_lag_ms": "min.compaction.lag.ms",
    "max_compaction_lag_ms": "max.compaction.lag.ms",
    "flush_messages": "flush.messages",
    "flush_ms": "flush.ms",
    "max_message_bytes": "max.message.bytes",
    "remote_storage": "remote.storage.enable",
}


def log_config_of(values: Mapping[str, Any], producer_id_expiration_ms: int) -> LogConfig:
    """`values`: the effective typed values of a topic."""
    policies = values["cleanup.policy"]
    internal = values["internal.segment.bytes"]
    return LogConfig(
        segment_bytes=internal if internal is not None else values["segment.bytes"],
        compact="compact" in policies,
        delete="delete" in policies,
        producer_id_expiration_ms=producer_id_expiration_ms,
        **{field: values[name] for field, name in _SAME.items()},
    )


__all__ = ["BrokerConfig", "InvalidConfig", "check_known", "parse_properties", "read_properties", "unknown_properties"]

log = logging.getLogger("odradek.config")

_REQUIRED = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
}
_EMBEDDED = {"listeners": "PLAINTEXT://127.0.0.1:9092"}
SINGLE_NODE_DEFAULTS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

#: Limit of log lines about unknown properties: a file for another program has hundreds.
_MOST_UNKNOWN_LINES = 10
_MOST_NAME_CHARACTERS = 100
#: Ends of the names of properties that name classes.
_CLASS_ENDINGS = (".class", ".class.name", ".classes", ".reporters")

#: Keys that Kafka passes on to its authorizer, without knowing them.
PLUGIN_KEYS = frozenset({"super.users", "allow.everyone.if.no.acl.found"})

_TIERED_SYSTEM_KEY = "remote.log.storage.system.enable"
_TIERED_STORE_KEY = "remote.log.storage.manager.class.name"
_TIERED_METADATA_KEY = "remote.log.metadata.manager.class.name"
_TIERED_METADATA_CLASS = "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"

Changed = Callable[[frozenset[str]], None]


class BrokerConfig:
    """The configuration of a broker. Raises InvalidConfig when the properties cannot be those of a broker."""

    def __init__(
        self, properties: Mapping[str, str] | None = None, note_unknown: Callable[[list[str]], None] | None = None
    ) -> None:
        """`note_unknown`: called with a line for each unknown property; by default the log has these lines."""
        said = resolved(properties or {})
        self.values = BrokerValues(_with_defaults(said))
        validate_broker_configs(self.values)
        _check_paths(self.values)
        #: Whether this broker has tiered storage (KIP-405).
        self.is_tiered = _is_tiered(self.values)
        self.listeners: Listeners = read_listeners(self.values)
        self._subscribers: list[Changed] = []
        #: Called when the dynamic values of this broker were written, even to what they were: files that they name may
        #: have changed (KIP-226).
        self.on_dynamic_written: list[Callable[[], None]] = []
        #: Called with the values that a request would lead to; one raises InvalidConfig where they cannot be had.
        self.validators: list[Callable[[BrokerValues], None]] = []
        self._read()
        (note_unknown or _warn_of_unknown)(unknown_properties(said))
        _warn_of_inert(said)

    def _read(self) -> None:
        self._effective: dict[str, Value] = dict(self.values.items()) | self.values.typed
        self.topic_defaults: dict[str, Value] = topic_defaults(self.values)
        """What a topic gets for every key that it does not set."""
        self._plain_log_config = self._log_config({})

    # Values.

    def get(self, name: str) -> Any:
        """The typed value of a broker's key now: bool, int, float, str, tuple of str, Password, or None. KeyError for a
        name that is neither known nor set.
        """
        return self._effective[name] if name in self._effective else self._other(name)

    def _other(self, name: str) -> Value:
        if broker_key(name) is None and name not in self.values.texts:
            raise KeyError(name)
        return self.values.get(name)

    def is_set(self, name: str) -> bool:
        """Returns True if any layer sets this very name."""
        return name in self.values.texts

    @property
    def node_id(self) -> int:
        node_id: int = self.get("node.id")
        return node_id

    @property
    def is_broker(self) -> bool:
        return "broker" in self.get("process.roles")

    @property
    def is_controller(self) -> bool:
        return "controller" in self.get("process.roles")

    @property
    def is_alone(self) -> bool:
        """Returns True if the configuration names no other node of the quorum."""
        return _is_alone(self.values.static)

    @property
    def log_dirs(self) -> list[str]:
        """`log.dirs`, or `log.dir` when that is not set; the first takes the metadata log."""
        return list(self.get("log.dirs") or self.get("log.dir"))

    @property
    def metadata_log_dir(self) -> str:
        return self.get("metadata.log.dir") or self.log_dirs[0]

    # Topics.

    def topic_values(self, overrides: Mapping[str, str]) -> dict[str, Value]:
        """The typed values of a topic that sets `overrides`."""
        return lenient_topic_values(overrides, self.topic_defaults, _log_rejected)

    def topic_log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """Returns the log configuration of a topic with `overrides`; topics without overrides share one object."""
        return self._log_config(overrides) if overrides else self._plain_log_config

    def _log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        return log_config_of(self.topic_values(overrides), self.get("producer.id.expiration.ms"))

    # Changes while the broker runs.

    def subscribe(self, function: Changed) -> None:
        """`function` is called with the names of the keys whose value changed, after every change."""
        self._subscribers.append(function)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> frozenset[str]:
        """Takes over what a published delta changed of this broker's dynamic values; `image` is the one that it led to.
        Returns the names of the broker's keys whose value is another now; those of topics are the publisher's to look at.
        """
        mine = {(ResourceType.BROKER, ""), (ResourceType.BROKER, str(self.node_id))}
        if not mine & delta.configs.keys():
            return frozenset()
        changed = self.take_dynamic(
            image.config(ResourceType.BROKER, ""), image.config(ResourceType.BROKER, str(self.node_id))
        )
        for function in self.on_dynamic_written:
            function()
        return changed

    def take_dynamic(self, default: Mapping[str, str], own: Mapping[str, str]) -> frozenset[str]:
        """Replaces the dynamic layers: the default of all brokers, and this broker's own."""
        before = self._effective
        self.values = BrokerValues(
            self.values.static,
            usable_dynamic_configs(default, per_broker=False, rejected=_log_rejected),
            usable_dynamic_configs(own, per_broker=True, rejected=_log_rejected),
        )
        self._read_listeners()
        self._read()
        names = before.keys() | self._effective.keys()
        changed = frozenset(name for name in names if before.get(name) != self._effective.get(name))
        if changed:
            log.info("dynamic configuration: %s", ", ".join(sorted(changed)))
            _warn_of_inert(changed & self.values.texts.keys())
            for function in self._subscribers:
                function(changed)
        return changed

    def _read_listeners(self) -> None:
        try:
            self.listeners = read_listeners(self.values)
        except InvalidConfig as rejected:
            log.error("the listeners are unchanged: %s", rejected)


def _with_defaults(static: dict[str, str]) -> dict[str, str]:
    """The static values with those that a node cannot do without, and that one alone needs."""
    if static.keys().isdisjoint(("node.id", "broker.id", "process.roles")):
        static = _EMBEDDED | static
    if "broker.id" in static:
        static.setdefault("node.id", static["broker.id"])
    static = _REQUIRED | static
    static.setdefault("broker.id", static["node.id"])
    return SINGLE_NODE_DEFAULTS | static if _is_alone(static) else static


def _is_alone(static: Mapping[str, str]) -> bool:
    """Returns True if the quorum names no other node."""
    if "controller" not in static["process.roles"]:
        return False
    voters = [voter for voter in static.get("controller.quorum.voters", "").split(",") if voter.strip()]
    servers = [server for server in static.get("controller.quorum.bootstrap.servers", "").split(",") if server.strip()]
    mine = static["node.id"].strip() + "@"
    return all(voter.strip().startswith(mine) for voter in voters) and len(servers) <= 1


def unknown_properties(properties: Mapping[str, str]) -> list[str]:
    """A line for each property that no key has, with the key that was probably meant; not more than people read."""
    unknown = sorted(
        name
        for name in properties
        if broker_key(name) is None and not name.startswith(PREFIX) and not _is_for_plugin(name, properties)
    )
    lines = [
        f"{_printable(name)} has no effect: Apache Kafka 4 has no such property any more"
        if is_removed(name)
        else f"{_printable(name)} is not a known property and has no effect{suggestion(name)}"
        for name in unknown[:_MOST_UNKNOWN_LINES]
    ]
    if len(unknown) > len(lines):
        lines.append(f"{len(unknown) - len(lines)} more properties are not known and have no effect")
    return lines


def check_known(properties: Mapping[str, str]) -> None:
    """Raises InvalidConfig for a property that no version of Kafka has, with the key that was probably meant.

    A class of the user's gets all properties: beside one, a property that is like no key may be its own.
    """
    has_plug_in = any(
        name.endswith(_CLASS_ENDINGS)
        and (value.startswith("python:") or ("." in value and not value.startswith("org.apache.kafka.")))
        for name, value in properties.items()
    )
    for name in sorted(properties):
        if broker_key(name) is not None or name.startswith(PREFIX) or is_removed(name):
            continue
        if _is_for_plugin(name, properties):
            continue
        meant = suggestion(name)
        if meant or not has_plug_in:
            raise InvalidConfig(f"{_printable(name)} is not a property of any version of Kafka{meant}")


def _is_for_plugin(name: str, properties: Mapping[str, str]) -> bool:
    """Returns whether a class gets the property: the authorizer, or one of the two of tiered storage."""
    if name in PLUGIN_KEYS:
        return True
    return properties.get(_TIERED_SYSTEM_KEY, "").strip().lower() == "true" and name.startswith(
        (
            properties.get("remote.log.storage.manager.impl.prefix", "rsm.config."),
            properties.get("remote.log.metadata.manager.impl.prefix", "rlmm.config."),
        )
    )


def _printable(name: str) -> str:
    """A name as it stands in a line of a log: it may come from a file that is no text."""
    cut = name if len(name) <= _MOST_NAME_CHARACTERS else f"{name[:_MOST_NAME_CHARACTERS]}..."
    return cut if cut.isprintable() and cut else repr(cut)


def _warn_of_unknown(lines: list[str]) -> None:
    for line in lines:
        log.warning("%s", line)


def _check_paths(values: BrokerValues) -> None:
    for name in ("log.dirs", "log.dir", "metadata.log.dir"):
        if "\0" in str(values.texts.get(name, "")):
            raise InvalidConfig(f"{name} has a NUL character, which no path can have")


def _is_tiered(values: BrokerValues) -> bool:
    if not values.get(_TIERED_SYSTEM_KEY):
        return False
    if not values.get(_TIERED_STORE_KEY) and "broker" in str(values.texts["process.roles"]):
        raise InvalidConfig(f"{_TIERED_SYSTEM_KEY}=true: {_TIERED_STORE_KEY} names the store of remote segments")
    if values.get(_TIERED_METADATA_KEY) != _TIERED_METADATA_CLASS:
        raise InvalidConfig(f"{_TIERED_METADATA_KEY}: the only one is {_TIERED_METADATA_CLASS}")
    return True


def _warn_of_inert(names: Iterable[str]) -> None:
    """Logs a line for each reason why keys that are set have no effect."""
    by_reason: dict[str, list[str]] = {}
    for name in sorted(names):
        key = broker_key(name)
        if key is not None and key.inert:
            by_reason.setdefault(key.inert, []).append(name)
    for reason, inert in by_reason.items():
        log.warning("configuration keys without effect: %s, because %s", ", ".join(inert), reason)


def _log_rejected(name: str, why: str) -> None:
    log.error("the stored value of %s is ignored: %s", name, why)


# ---- values that name a user's own class

_OWN_CLASS = "python:"


@runtime_checkable
class Configurable(Protocol):
    """A class of a user's own that reads the node's properties."""

    def configure(self, properties: Mapping[str, str]) -> None:
        """Takes the node's own properties. An exception ends the start."""


def is_own_class(text: str) -> bool:
    """Returns whether the value of a class's key names a Python class."""
    return text.startswith(_OWN_CLASS)


def load_class(key: str, text: str, interface: type[Any], properties: Mapping[str, str] | None = None) -> Any:
    """Returns an instance of the class. `interface`: a runtime-checkable protocol. Raises InvalidConfig.

    With `properties`, a class that is Configurable is configured by them.
    """
    module, colon, name = text.removeprefix(_OWN_CLASS).rpartition(":")
    if not is_own_class(text) or not colon:
        raise InvalidConfig(f"{key}={text}: name your own class as python:package.module:Name")
    try:
        made = getattr(import_module(module), name)()
    except Exception as failure:
        raise InvalidConfig(f"{key}={text}: cannot be created: {type(failure).__name__}: {failure}") from failure
    if not isinstance(made, interface):
        raise InvalidConfig(f"{key}={text}: does not implement {interface.__name__}")
    if properties is not None and isinstance(made, Configurable):
        try:
            made.configure(properties)
        except Exception as failure:
            raise InvalidConfig(f"{key}={text}: configure failed: {failure}") from failure
    return made
