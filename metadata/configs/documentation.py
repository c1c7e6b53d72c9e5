"""Descriptions of keys, for DescribeConfigs with documentation. The texts are loaded on first use."""

from __future__ import annotations

from functools import lru_cache

from .broker_values import broker_key
from .key import ConfigResourceType
from .resources import definition


def documentation(resource_type: int, name: str) -> str | None:
    """Returns one or two sentences; None if the key is unknown."""
    key = broker_key(name) if resource_type == ConfigResourceType.BROKER else definition(resource_type).get(name)
    if key is None:
        return None
    words = _words()[resource_type][key.name]
    return f"{words} It has no effect here: {key.inert}." if key.inert else words


@lru_cache(maxsize=1)
def _words() -> dict[int, dict[str, str]]:
    from .descriptions import (
        CLIENT_METRICS,
        GROUPS_BROKER,
        GROUPS_GROUP,
        LOG_BROKER,
        LOG_TOPIC,
        SECURITY_BROKER,
        SERVER_BROKER,
    )

    return {
        ConfigResourceType.BROKER: SERVER_BROKER | LOG_BROKER | GROUPS_BROKER | SECURITY_BROKER,
        ConfigResourceType.TOPIC: LOG_TOPIC,
        ConfigResourceType.GROUP: GROUPS_GROUP,
        ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS,
    }
