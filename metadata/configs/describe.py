"""DescribeConfigs entries of a resource's keys: value, source and synonyms (KIP-226, KIP-569).

Results are lists of the protocol's entries, ordered by name. The source of a value is that of its first synonym.
Synonyms are listed from the strongest layer to the weakest. Those of a broker's key begin with the key itself, so a
value that comes from another unit (log.retention.hours) lists none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from ...protocol.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym
from ..mirror_keys import is_shown
from .broker_values import broker_key, synonyms, topic_defaults
from .key import Scope
from .resources import BROKER, CLIENT_METRICS, GROUP, OWN, TOPIC
from .values import ConfigType, InvalidConfig, to_text

if TYPE_CHECKING:
    from .broker_values import BrokerValues
    from .key import ConfigKey
    from .values import Value

Entry = DescribeConfigsResourceResult
Synonym = DescribeConfigsSynonym
Entries = list[DescribeConfigsResourceResult]


class ConfigSource(IntEnum):
    """The source of a value, with the codes of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


def describe_topic(configs: Mapping[str, str], broker: BrokerValues) -> Entries:
    """Returns every key of a topic that sets `configs`, with defaults from these broker values."""
    inherited = topic_defaults(broker)
    entries = []
    for name in _shown(TOPIC, configs):
        key = TOPIC.get(name)
        own = _own(name, configs, key, ConfigSource.TOPIC)
        lower = _broker_synonyms(key.broker, broker) if key and key.broker else []
        value = own[0].value if own else to_text(inherited.get(name))
        entries.append(_entry(name, value, key, own + lower))
    return entries


def describe_group(configs: Mapping[str, str], broker: BrokerValues) -> Entries:
    """Returns every key of a group that sets `configs`."""
    set_internal = [name for name, key in GROUP.items() if key.internal and key.broker in broker.texts]
    entries = []
    for name in _shown(GROUP, [*configs, *set_internal]):
        key = GROUP.get(name)
        own = _own(name, configs, key, ConfigSource.GROUP)
        if key and key.broker:
            lower = _broker_synonyms(key.broker, broker)
        else:
            default = to_text(key.default_value) if key else None
            lower = [] if default is None else [Synonym(name, default, ConfigSource.DEFAULT)]
        value = own[0].value if own else _group_default(key, broker)
        entries.append(_entry(name, value, key, own + lower))
    return entries


def _group_default(key: ConfigKey | None, broker: BrokerValues) -> str | None:
    value: Value = None
    if key is not None:
        value = broker.get(key.broker) if key.broker else key.default_value
        if isinstance(value, tuple) and key.type is not ConfigType.LIST:
            value = value[0]  # only the first of the broker's assignors is used
    return to_text(value)


def describe_client_metrics(configs: Mapping[str, str]) -> Entries:
    """Returns every key of a client metrics subscription that sets `configs`."""
    entries = []
    for name in _shown(CLIENT_METRICS, configs):
        key = CLIENT_METRICS.get(name)
        own = _own(name, configs, key, ConfigSource.CLIENT_METRICS)
        entries.append(_entry(name, own[0].value if own else to_text(key.default_value if key else None), key, own))
    return entries


def describe_broker(broker: BrokerValues) -> Entries:
    """Returns every key of a broker, and unknown keys that are set."""
    entries = []
    for name in _shown(BROKER, broker.texts):
        key = broker_key(name)
        value = to_text(broker.get(name))
        entries.append(_entry(name, value, key, _broker_synonyms(name, broker), read_only=_is_read_only(name)))
    return entries


def describe_broker_defaults(broker: BrokerValues) -> Entries:
    """Returns the cluster-wide dynamic defaults of brokers."""
    entries = []
    for name in sorted(broker.dynamic_default):
        own = [s for s in _broker_synonyms(name, broker) if s.source == ConfigSource.DYNAMIC_DEFAULT_BROKER]
        text = broker.dynamic_default[name]
        entries.append(_entry(name, text, broker_key(name), own, read_only=_is_read_only(name)))
    return entries


def _shown(table: Mapping[str, ConfigKey], set_names: Iterable[str]) -> list[str]:
    usual = {name for name, key in table.items() if not key.internal and not key.dynamic_only}
    return sorted(usual.union(set_names))


def _is_read_only(name: str) -> bool:
    return name not in BROKER or BROKER[name].scope is Scope.READ_ONLY


def _own(name: str, configs: Mapping[str, str], key: ConfigKey | None, source: ConfigSource) -> list[Synonym]:
    """Returns the value that the resource itself sets, in its parsed form."""
    if name not in configs:
        return []
    return [Synonym(name, _normal(key, configs[name]), source)]


def _normal(key: ConfigKey | None, text: str) -> str | None:
    try:
        return to_text(key.parse(text)) if key else text
    except InvalidConfig:
        return text


def _broker_synonyms(name: str, broker: BrokerValues) -> list[Synonym]:
    names = synonyms(name)
    layers = (
        (broker.dynamic_broker, ConfigSource.DYNAMIC_BROKER),
        (broker.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (broker.static, ConfigSource.STATIC_BROKER),
    )
    secret = _is_sensitive(name, broker_key(name))
    found = [
        Synonym(synonym, None if secret else layer[synonym], source)
        for layer, source in layers
        for synonym in names
        if synonym in layer
    ]
    for synonym in names:
        key = BROKER.get(synonym) or OWN.get(synonym)
        default = to_text(key.default_value) if key and not key.dynamic_only else None
        if default is not None:
            found.append(Synonym(synonym, None if secret else default, ConfigSource.DEFAULT))
    while found and found[0].name != name:
        del found[0]
    return found


def _is_sensitive(name: str, key: ConfigKey | None) -> bool:
    """Returns whether a value is sensitive. The value of an unknown key may be a secret."""
    return not is_shown(name) if key is None else key.type is ConfigType.PASSWORD


def _entry(
    name: str, value: str | None, key: ConfigKey | None, origins: list[Synonym], *, read_only: bool = False
) -> DescribeConfigsResourceResult:
    secret = _is_sensitive(name, key)
    return Entry(
        name=name,
        value=None if secret else value,
        read_only=read_only,
        config_source=origins[0].source if origins else ConfigSource.DEFAULT,
        is_sensitive=secret,
        synonyms=[Synonym(s.name, None, s.source) for s in origins] if secret else origins,
        config_type=key.type if key else ConfigType.UNKNOWN,
        documentation=None,
    )
