"""Every configuration key of Kafka 4.4: type, default, validation, scope.

The tables are `broker.py`, `topic.py`, `group.py` and `client_metrics.py`, one row per key, and `odradek_keys.py` with
Odradek's own. Files named `..._rules.py` have the rules for several values together, and `broker_values.py` the precedence
of a broker's layers. All of it is pure: it takes texts and typed values, and returns typed values or raises InvalidConfig.
"""

from __future__ import annotations

from .broker_changes import validate_broker_change
from .broker_rules import connection_overrides, validate_broker_configs
from .broker_values import BrokerValues, broker_key, synonyms, topic_default, topic_defaults
from .client_metrics_rules import validate_client_metrics_configs
from .dynamic import usable_dynamic_configs, validate_dynamic_names
from .group_rules import validate_group_configs
from .key import ConfigKey, ConfigResourceType, Scope
from .resources import definition
from .suggestions import is_removed, suggestion
from .table_rules import check_table_configs, check_table_place
from .topic_rules import lenient_topic_values, validate_topic_configs
from .values import ConfigType, InvalidConfig, Password, Value, to_text

__all__ = [
    "BrokerValues",
    "ConfigKey",
    "ConfigType",
    "InvalidConfig",
    "Password",
    "ConfigResourceType",
    "Scope",
    "Value",
    "broker_key",
    "check_table_configs",
    "check_table_place",
    "connection_overrides",
    "default_text",
    "definition",
    "appended",
    "is_list",
    "subtracted",
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
    ConfigResourceType.TOPIC: "Unknown topic config name: {}",
    ConfigResourceType.GROUP: "Unknown group config name: {}",
    ConfigResourceType.CLIENT_METRICS: "Unknown client metrics configuration: {}",
}


def validate(resource_type: int, name: str, text: str) -> Value:
    """Returns the typed value of one key's text; raises InvalidConfig. An unknown key of a broker has its text as value."""
    key = broker_key(name) if resource_type == ConfigResourceType.BROKER else definition(resource_type).get(name)
    if key is not None:
        return key.parse(text)
    if resource_type == ConfigResourceType.BROKER:
        return text
    raise InvalidConfig(_UNKNOWN.get(ConfigResourceType(resource_type), "Unknown config name: {}").format(name))


def is_list(resource_type: int, name: str) -> bool:
    """Returns whether a key accepts APPEND and SUBTRACT. In Kafka, lists of groups and client metrics do not."""
    key = definition(resource_type).get(name)
    may_be_changed = resource_type in (ConfigResourceType.TOPIC, ConfigResourceType.BROKER)
    return may_be_changed and key is not None and key.type is ConfigType.LIST


def appended(text: str, operand: str) -> str:
    """Returns a list with the elements of `operand` that it has not (APPEND)."""
    elements = _present(text)
    for element in _split(operand):
        if element not in elements:
            elements.append(element)
    return ",".join(elements)


def subtracted(text: str, operand: str) -> str:
    """Returns a list without the elements of `operand` (SUBTRACT)."""
    elements = _present(text)
    for element in _split(operand):
        if element in elements:
            elements.remove(element)
    return ",".join(elements)


def _present(text: str) -> list[str]:
    return [element for element in text.split(",") if element]


def _split(operand: str) -> list[str]:
    """Splits as Java does: empty elements at the end count only where there is nothing else."""
    return operand.rstrip(",").split(",") if operand.strip(",") or not operand else []


def default_text(resource_type: int, name: str) -> str | None:
    """Returns Kafka's default of a key as text; None if the key has none or is unknown."""
    key = definition(resource_type).get(name)
    return to_text(key.default_value) if key is not None else None
