"""The values of a broker: the layers, their precedence, and the defaults of topics.

A broker has four layers, the strongest first: the dynamic values of this broker, the dynamic default of all brokers,
the static values of server.properties, and Kafka's defaults. Keys with the same meaning in different units are
synonyms. A stronger layer that sets one hides the others in the layers below; within a layer the first in the order
below wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .resources import BROKER, OWN, TOPIC
from .values import InvalidConfig

if TYPE_CHECKING:
    from .key import ConfigKey
    from .values import Value

Texts = Mapping[str, str]

_SYNONYMS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SYNONYMS_OF = {name: names for names in _SYNONYMS for name in names} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}
LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.(.*)")
# Keys that take the prefix `listener.name.<listener>.<mechanism>.` (KIP-103, KIP-226).
_PER_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


def synonyms(name: str, *, of_listeners: bool = True) -> tuple[str, ...]:
    """Returns the keys that can set the value of a broker's key, the strongest first, including the key itself."""
    if name in _SYNONYMS_OF:
        return _SYNONYMS_OF[name]
    if of_listeners and (found := LISTENER_PREFIX.fullmatch(name)):
        base = found.group(1)
        return name, next((key for key in _PER_MECHANISM if base.endswith(key)), base)
    return (name,)


def broker_key(name: str) -> ConfigKey | None:
    """Returns the definition of a broker's key, with or without a listener prefix; None if it is unknown."""
    for known in synonyms(name)[::-1] if LISTENER_PREFIX.fullmatch(name) else (name,):
        if found := BROKER.get(known) or OWN.get(known):
            return found
    return None


def overlay(below: Mapping[str, str], above: Texts) -> dict[str, str]:
    """Returns one layer laid over another. A key in the upper layer removes its synonyms from the lower."""
    merged = dict(below)
    for name, text in above.items():
        for synonym in synonyms(name, of_listeners=False):
            merged.pop(synonym, None)
        merged[name] = text
    return merged


@dataclass(frozen=True)
class BrokerValues:
    """The layers of one broker as texts, and the resulting typed values. Immutable."""

    static: Texts = field(default_factory=dict)
    dynamic_default: Texts = field(default_factory=dict)
    dynamic_broker: Texts = field(default_factory=dict)
    texts: dict[str, str] = field(init=False)
    """What is set, all layers merged."""
    typed: dict[str, Value] = field(init=False)
    """The typed value of each key that is set and known."""

    def __post_init__(self) -> None:
        """Raises InvalidConfig for an invalid static text. An invalid dynamic text is ignored.

        The broker that stored it may have run another release, and this one must start.
        """
        object.__setattr__(self, "dynamic_default", _valid(self.dynamic_default))
        object.__setattr__(self, "dynamic_broker", _valid(self.dynamic_broker))
        texts = overlay(overlay(self.static, self.dynamic_default), self.dynamic_broker)
        known = {name: key for name in texts if (key := broker_key(name))}
        object.__setattr__(self, "texts", texts)
        object.__setattr__(self, "typed", {name: _parse(name, key, texts[name]) for name, key in known.items()})

    def get(self, name: str) -> Value:
        """Returns the typed value of a key. An unknown name has its text, or None."""
        if name in self.typed:
            return self.typed[name]
        key = broker_key(name)
        if key is not None:
            return self.get(key.name) if key.name != name else key.default_value
        return self.texts.get(name)

    def items(self) -> Iterator[tuple[str, Value]]:
        """Yields every key of Kafka with its value."""
        return ((name, self.get(name)) for name in BROKER)


def _valid(layer: Texts) -> Texts:
    def is_valid(name: str, text: str) -> bool:
        key = broker_key(name)
        try:
            if key is not None:
                key.parse(text)
        except InvalidConfig:
            return False
        return True

    return {name: text for name, text in layer.items() if is_valid(name, text)}


def _parse(name: str, key: ConfigKey, text: str) -> Value:
    try:
        return key.parse(text)
    except InvalidConfig as rejected:
        raise InvalidConfig(str(rejected).replace(key.name, name) if name != key.name else str(rejected)) from None


def _in_ms(values: BrokerValues, *names_and_units: tuple[str, int]) -> int | None:
    """Returns the first of the keys that has a value, in milliseconds."""
    for name, unit_ms in names_and_units:
        value = values.get(name)
        if value is not None:
            assert isinstance(value, int)
            return value * unit_ms
    return None


def retention_ms(values: BrokerValues) -> int:
    """Returns the retention time of records; -1 is unlimited."""
    keys = ("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)
    found = _in_ms(values, *keys)
    return max(-1, found if found is not None else -1)


def roll_ms(values: BrokerValues) -> int | None:
    return _in_ms(values, ("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS))


def roll_jitter_ms(values: BrokerValues) -> int | None:
    return _in_ms(values, ("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS))


def flush_ms(values: BrokerValues) -> int | None:
    return _in_ms(values, ("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1))


_CONVERTED: dict[str, Callable[[BrokerValues], int | None]] = {
    "retention.ms": retention_ms,
    "segment.ms": roll_ms,
    "segment.jitter.ms": roll_jitter_ms,
    "flush.ms": flush_ms,
}


def topic_defaults(values: BrokerValues) -> dict[str, Value]:
    """Returns the default of every topic key, from this broker's values."""
    return {name: topic_default(name, values) for name in TOPIC}


def topic_default(name: str, values: BrokerValues) -> Value:
    key = TOPIC[name]
    if name in _CONVERTED:
        return _CONVERTED[name](values)
    return values.get(key.broker) if key.broker else key.default_value
