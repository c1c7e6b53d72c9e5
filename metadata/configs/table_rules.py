"""The rule for tables that follow topics: a cluster that has no place for tables refuses to enable one."""

from __future__ import annotations

from collections.abc import Mapping

from .values import InvalidConfig, Value

#: The beginning of the keys of topics and of brokers.
PREFIX = "odradek.table."
ENABLE, WAREHOUSE, CATALOG = f"{PREFIX}enable", f"{PREFIX}warehouse", f"{PREFIX}catalog.config"


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
