"""The rules for tables that follow topics: a cluster without a place for tables refuses to enable one, and some configs
need others.
"""

from __future__ import annotations

from collections.abc import Mapping

from .values import InvalidConfig, Value

#: The beginning of the keys of topics and of brokers.
PREFIX = "odradek.table."
ENABLE, WAREHOUSE, CATALOG = f"{PREFIX}enable", f"{PREFIX}warehouse", f"{PREFIX}catalog.config"
KEY, PARTITION_BY = f"{PREFIX}key", f"{PREFIX}partition.by"
ENVELOPE, FORMAT = f"{PREFIX}envelope", f"{PREFIX}format"
_OF_KEYS = (f"{PREFIX}sort.by", f"{PREFIX}row.ttl.ms")
#: Partitions of a table with a row for each record.
UNITS = ("hour", "day", "month", "none")


def is_enabled(configs: Mapping[str, str]) -> bool:
    """Returns whether a table follows the topic with these configs."""
    return configs.get(ENABLE, "").strip().lower() == "true"


def check_table_place(
    configs: Mapping[str, str], existing: Mapping[str, str], warehouse: Value, catalog: Value
) -> None:
    """`existing`: the configs before the change. `warehouse`, `catalog`: values of the controller's keys.

    Raises InvalidConfig for a table without a place. A topic that has one already may still change its other configs.
    """
    if is_enabled(configs) and not is_enabled(existing) and not warehouse and not catalog:
        raise InvalidConfig(
            f"{ENABLE}=true needs a place for tables: set {WAREHOUSE}=DIR, or {CATALOG}=FILE with the properties of an "
            "Iceberg catalog, in server.properties of every node, and restart them"
        )


def check_table_configs(configs: Mapping[str, str]) -> None:
    """Raises InvalidConfig for configs of a topic that need others: a key, or values with columns."""
    has_envelope = configs.get(ENVELOPE, "none").strip() != "none"
    if KEY not in configs:
        needing = [name for name in _OF_KEYS if name in configs] + [ENVELOPE] * has_envelope
        if needing:
            raise InvalidConfig(f"{needing[0]} is for tables with a row for each key: set {KEY}, too")
        unit = configs.get(PARTITION_BY, UNITS[0])
        if unit.strip() not in UNITS:
            raise InvalidConfig(f"{PARTITION_BY} is one of {', '.join(UNITS)}, not {unit[:100]!r}; columns need {KEY}")
    elif has_envelope and configs.get(FORMAT, "raw").strip() == "raw":
        raise InvalidConfig(f"{ENVELOPE} needs values with columns: set {FORMAT} to json, avro or protobuf, too")
