"""The combined tables: every key of Kafka 4.4, by type of resource."""

from __future__ import annotations

from collections.abc import Mapping

from .broker import (
    GROUPS_KEYS,
    LOG_KEYS,
    NETWORK_KEYS,
    NODE_KEYS,
    OPERATIONS_KEYS,
    REMOTE_KEYS,
    REPLICATION_KEYS,
    SECURITY_KEYS,
    SHARE_KEYS,
    STREAMS_KEYS,
    TRANSACTIONS_KEYS,
)
from .key import ConfigKey, ResourceType, table
from .resources import CLIENT_METRICS_KEYS, GROUP_KEYS, OWN_KEYS, TOPIC_KEYS

BROKER = table(
    GROUPS_KEYS,
    LOG_KEYS,
    NETWORK_KEYS,
    NODE_KEYS,
    OPERATIONS_KEYS,
    REMOTE_KEYS,
    REPLICATION_KEYS,
    SECURITY_KEYS,
    SHARE_KEYS,
    STREAMS_KEYS,
    TRANSACTIONS_KEYS,
)
TOPIC = table(TOPIC_KEYS)
GROUP = table(GROUP_KEYS)
CLIENT_METRICS = table(CLIENT_METRICS_KEYS)
OWN = table(OWN_KEYS)

_BY_TYPE = {
    ResourceType.BROKER: BROKER,
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS,
}


def definition(resource_type: int) -> Mapping[str, ConfigKey]:
    """Returns the keys of a type of resource by name, ordered by name; empty for a type without a table."""
    return _BY_TYPE.get(ResourceType(resource_type), {}) if resource_type in _BY_TYPE else {}
