"""Descriptions of keys, for DescribeConfigs with documentation. The texts are loaded on first use."""

from __future__ import annotations

from functools import lru_cache

from .broker_values import broker_key
from .key import ResourceType
from .tables import definition


def documentation(resource_type: int, name: str) -> str | None:
    """Returns one or two sentences; None if the key is unknown."""
    key = broker_key(name) if resource_type == ResourceType.BROKER else definition(resource_type).get(name)
    if key is None:
        return None
    words = _words()[resource_type][key.name]
    return f"{words} It has no effect here: {key.inert}." if key.inert else words


@lru_cache(maxsize=1)
def _words() -> dict[int, dict[str, str]]:
    from . import words_groups, words_log, words_security, words_server

    return {
        ResourceType.BROKER: words_server.BROKER | words_log.BROKER | words_groups.BROKER | words_security.BROKER,
        ResourceType.TOPIC: words_log.TOPIC,
        ResourceType.GROUP: words_groups.GROUP,
        ResourceType.CLIENT_METRICS: words_server.CLIENT_METRICS,
    }
