"""The combined tables: every key of Kafka 4.4, by type of resource."""

from __future__ import annotations

from collections.abc import Mapping

from . import (
    broker_groups,
    broker_log,
    broker_network,
    broker_node,
    broker_operations,
    broker_remote,
    broker_replication,
    broker_security,
    broker_share,
    broker_streams,
    broker_transactions,
    client_metrics,
    group,
    odradek_keys,
    topic,
)
from .key import ConfigKey, ResourceType, table

BROKER = table(
    broker_groups.KEYS,
    broker_log.KEYS,
    broker_network.KEYS,
    broker_node.KEYS,
    broker_operations.KEYS,
    broker_remote.KEYS,
    broker_replication.KEYS,
    broker_security.KEYS,
    broker_share.KEYS,
    broker_streams.KEYS,
    broker_transactions.KEYS,
)
TOPIC = table(topic.KEYS)
GROUP = table(group.KEYS)
CLIENT_METRICS = table(client_metrics.KEYS)
OWN = table(odradek_keys.KEYS)

_BY_TYPE = {
    ResourceType.BROKER: BROKER,
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS,
}


def definition(resource_type: int) -> Mapping[str, ConfigKey]:
    """Returns the keys of a type of resource by name, ordered by name; empty for a type without a table."""
    return _BY_TYPE.get(ResourceType(resource_type), {}) if resource_type in _BY_TYPE else {}
