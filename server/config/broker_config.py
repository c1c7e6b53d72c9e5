"""The broker's configuration: server.properties and --override, under dynamic values that change while it runs.

`get` gives a key's typed value and is called each time it is needed, so that a dynamic change is seen at once; code
that must react to a change subscribes. The values themselves, their types, checks and layers, are
`metadata/configs`.

No setting is required. A node without `node.id` and `process.roles` is an embedded one: it listens on
127.0.0.1:9092. A node whose quorum names no other node is a single node. It keeps one replica of the internal
topics, as in the server.properties that ships with Kafka; such values count as static ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, cast, overload

from ...metadata.configs import (
    BrokerValues,
    ConfigResourceType,
    InvalidConfig,
    broker_key,
    lenient_topic_values,
    topic_defaults,
    usable_dynamic_configs,
    validate_broker_configs,
)
from .listeners import read_listeners
from .log_configs import log_config_of
from .providers import resolved
from .tiered_storage import is_tiered
from .unknown_properties import unknown_properties

if TYPE_CHECKING:
    from ...metadata.configs import Password, Value
    from ...metadata.configs.key_types import (
        BooleanKey,
        FloatKey,
        IntegerKey,
        ListKey,
        OptionalIntegerKey,
        OptionalListKey,
        OptionalPasswordKey,
        OptionalTextKey,
        TextKey,
        TopicValues,
    )
    from ...metadata.delta import MetadataDelta
    from ...metadata.image import MetadataImage
    from ...storage.log.config import LogConfig
    from .listeners import Listeners

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
        self.is_tiered = is_tiered(self.values)
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

    @overload
    def get(self, name: BooleanKey) -> bool: ...
    @overload
    def get(self, name: IntegerKey) -> int: ...
    @overload
    def get(self, name: OptionalIntegerKey) -> int | None: ...
    @overload
    def get(self, name: FloatKey) -> float: ...
    @overload
    def get(self, name: TextKey) -> str: ...
    @overload
    def get(self, name: OptionalTextKey) -> str | None: ...
    @overload
    def get(self, name: ListKey) -> tuple[str, ...]: ...
    @overload
    def get(self, name: OptionalListKey) -> tuple[str, ...] | None: ...
    @overload
    def get(self, name: OptionalPasswordKey) -> Password | None: ...

    def get(self, name: str) -> Value:
        """The typed value of a broker's key now."""
        return self._effective[name] if name in self._effective else self._other(name)

    def value_of(self, name: str) -> Value:
        """The same for a name that is known at run time only, such as one with a listener's prefix. KeyError for a name
        that is neither known nor set.
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
        return self.get("node.id")

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

    def topic_values(self, overrides: Mapping[str, str]) -> TopicValues:
        """The typed values of a topic that sets `overrides`."""
        return cast("TopicValues", lenient_topic_values(overrides, self.topic_defaults, _log_rejected))

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
        mine = {(ConfigResourceType.BROKER, ""), (ConfigResourceType.BROKER, str(self.node_id))}
        if not mine & delta.configs.keys():
            return frozenset()
        changed = self.take_dynamic(
            image.config(ConfigResourceType.BROKER, ""), image.config(ConfigResourceType.BROKER, str(self.node_id))
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


def _warn_of_unknown(lines: list[str]) -> None:
    for line in lines:
        log.warning("%s", line)


def _check_paths(values: BrokerValues) -> None:
    for name in ("log.dirs", "log.dir", "metadata.log.dir"):
        if "\0" in str(values.texts.get(name, "")):
            raise InvalidConfig(f"{name} has a NUL character, which no path can have")


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
