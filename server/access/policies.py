"""The policies that a node's configuration names: `create.topic.policy.class.name` and `alter.config.policy.class.name`.

Both take `python:package.module:Name`. The protocols that such a class implements, and what it gets, are exported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metadata.configs import ConfigResourceType
from ...replication.controller.policies import (
    AlterConfigPolicy,
    ConfigAlteration,
    CreateTopicPolicy,
    Policies,
    PolicyViolation,
    TopicCreation,
)
from ..config.own_classes import load_class

__all__ = [
    "AlterConfigPolicy",
    "ConfigAlteration",
    "CreateTopicPolicy",
    "Policies",
    "PolicyViolation",
    "ConfigResourceType",
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
