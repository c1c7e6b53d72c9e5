"""Loads a user's own class, where Kafka loads a Java class: `python:package.module:Name`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from ...metadata.configs import InvalidConfig, ResourceType
from ...replication.controller.security.policies import (
    AlterConfigPolicy,
    ConfigAlteration,
    CreateTopicPolicy,
    Policies,
    PolicyViolation,
    TopicCreation,
)

PREFIX = "python:"


@runtime_checkable
class Configurable(Protocol):
    """A class of a user's own that reads the node's properties."""

    def configure(self, properties: Mapping[str, str]) -> None:
        """Takes the node's own properties. An exception ends the start."""


def is_own_class(text: str) -> bool:
    """Returns whether the value of a class's key names a Python class."""
    return text.startswith(PREFIX)


def load_class(key: str, text: str, interface: type[Any], properties: Mapping[str, str] | None = None) -> Any:
    """Returns an instance of the class. `interface`: a runtime-checkable protocol. Raises InvalidConfig.

    With `properties`, a class that is Configurable is configured by them.
    """
    module, colon, name = text.removeprefix(PREFIX).rpartition(":")
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


# The policies that a node's configuration names: `create.topic.policy.class.name` and `alter.config.policy.class.name`.
#
# Both take `python:package.module:Name`. The protocols that such a class implements, and what it gets, are exported here.
__all__ = [
    "AlterConfigPolicy",
    "ConfigAlteration",
    "CreateTopicPolicy",
    "Policies",
    "PolicyViolation",
    "ResourceType",
    "TopicCreation",
    "read_policies",
]

CREATE_TOPIC = "create.topic.policy.class.name"
ALTER_CONFIG = "alter.config.policy.class.name"


def read_policies(properties: Mapping[str, str]) -> Policies:
    """Returns the policies of a node. `properties`: its own. Raises InvalidConfig."""

    def read(key: str, interface: type[Any]) -> Any:
        name = properties.get(key, "").strip()
        return load_class(key, name, interface, properties) if name else None

    return Policies(read(CREATE_TOPIC, CreateTopicPolicy), read(ALTER_CONFIG, AlterConfigPolicy))
