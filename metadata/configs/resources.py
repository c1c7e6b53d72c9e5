"""The tables of config keys by type of resource: every key of Kafka 4.4, and Odradek's own.

`BROKER`, `TOPIC`, `GROUP`, `CLIENT_METRICS`, `OWN` and `OWN_TOPIC` are the combined tables.
`definition` finds the table of a type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import broker
from .client_metrics import CLIENT_METRICS_KEYS
from .group import GROUP_KEYS
from .key import ConfigResourceType, table
from .odradek_keys import OWN_KEYS, OWN_TOPIC_KEYS
from .topic import TOPIC_KEYS

if TYPE_CHECKING:
    from .key import ConfigKey

BROKER = table(*broker.TABLES)
TOPIC = table(TOPIC_KEYS, OWN_TOPIC_KEYS)
GROUP = table(GROUP_KEYS)
CLIENT_METRICS = table(CLIENT_METRICS_KEYS)
OWN = table(OWN_KEYS)
OWN_TOPIC = table(OWN_TOPIC_KEYS)

_BY_TYPE = {
    ConfigResourceType.BROKER: BROKER,
    ConfigResourceType.TOPIC: TOPIC,
    ConfigResourceType.GROUP: GROUP,
    ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS,
}


def definition(resource_type: int) -> Mapping[str, ConfigKey]:
    """Returns the keys of a type of resource by name, ordered by name; empty for a type without a table."""
    return _BY_TYPE.get(ConfigResourceType(resource_type), {}) if resource_type in _BY_TYPE else {}
