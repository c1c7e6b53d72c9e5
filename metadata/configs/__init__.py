"""Every configuration key of Kafka 4.4: type, default, validation, scope.

The tables are `broker.py` and `resources.py`, one row per key; the last table of `resources.py` has Odradek's own keys.
`rules.py` has the rules for several values together, and `broker_values.py` the precedence of a broker's
layers. All of it is pure: it takes texts and typed values, and returns typed values or raises InvalidConfig.
"""

from __future__ import annotations

from .broker_values import BrokerValues, broker_key, is_removed, suggestion, synonyms, topic_default, topic_defaults
from .key import ConfigKey, ConfigType, InvalidConfig, Password, ResourceType, Scope, Value, to_text
from .resources import definition
from .rules import (
    connection_overrides,
    lenient_topic_values,
    usable_dynamic_configs,
    validate_broker_change,
    validate_broker_configs,
    validate_client_metrics_configs,
    validate_dynamic_names,
    validate_group_configs,
    validate_topic_configs,
)

__all__ = [
    "BrokerValues",
    "ConfigKey",
    "ConfigType",
    "InvalidConfig",
    "Password",
    "ResourceType",
    "Scope",
    "Value",
    "broker_key",
    "connection_overrides",
    "default_text",
    "definition",
    "is_list",
    "lenient_topic_values",
    "is_removed",
    "suggestion",
    "synonyms",
    "to_text",
    "topic_default",
    "topic_defaults",
    "usable_dynamic_configs",
    "validate",
    "validate_broker_change",
    "validate_broker_configs",
    "validate_client_metrics_configs",
    "validate_dynamic_names",
    "validate_group_configs",
    "validate_topic_configs",
]

_UNKNOWN = {
    ResourceType.TOPIC: "Unknown topic config name: {}",
    ResourceType.GROUP: "Unknown group config name: {}",
    ResourceType.CLIENT_METRICS: "Unknown client metrics configuration: {}",
}


def validate(resource_type: int, name: str, text: str) -> Value:
    """Returns the typed value of one key's text; raises InvalidConfig. An unknown key of a broker has its text as value."""
    key = broker_key(name) if resource_type == ResourceType.BROKER else definition(resource_type).get(name)
    if key is not None:
        return key.parse(text)
    if resource_type == ResourceType.BROKER:
        return text
    raise InvalidConfig(_UNKNOWN.get(ResourceType(resource_type), "Unknown config name: {}").format(name))


def is_list(resource_type: int, name: str) -> bool:
    """Returns whether a key accepts APPEND and SUBTRACT."""
    key = definition(resource_type).get(name)
    return key is not None and key.type is ConfigType.LIST


def default_text(resource_type: int, name: str) -> str | None:
    """Returns Kafka's default of a key as text; None if the key has none or is unknown."""
    key = definition(resource_type).get(name)
    return to_text(key.default_value) if key is not None else None
