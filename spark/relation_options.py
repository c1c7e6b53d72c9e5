"""Options of `format("odradek")` for a relation: a topic's table up to its newest commit, and the log from there on.

An option that names the place of a table makes a query one of a relation. The options of the client are those of a topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .options import InvalidOptions, check_choice, check_client, check_names, number

#: The options that name the place of a table.
_WAREHOUSE, _PARQUET, _CATALOG = "warehouse", "parquet", "catalog."
_NAMES = (
    "subscribe", _WAREHOUSE, _PARQUET, "namespace", "table", "valueFormat", "valueSchema", "schemaRegistry",
    "schemaRegistryUserInfo", "message", "times", "splitBytes",
)  # fmt: skip
_VALUE_FORMATS = ("json", "avro", "protobuf")
_TIMES = ("native", "number")
_ISOLATION_LEVEL = "isolation.level"


@dataclass(frozen=True, slots=True)
class RelationOptions:
    """Checked options. `client`, `catalog`: properties, which may hold passwords. `values`: what names the values' schema,
    None for raw ones.
    """

    topic: str
    client: dict[str, str] = field(repr=False)
    warehouse: str | None = None
    parquet: str | None = None
    catalog: dict[str, str] = field(default_factory=dict, repr=False)
    namespace: str | None = None
    table: str | None = None
    value_format: str = ""
    value_schema: str | None = None
    schema_registry: str | None = None
    schema_registry_user_info: str | None = field(default=None, repr=False)
    message: str | None = None
    times: str = _TIMES[0]
    task_bytes: int | None = None

    @property
    def isolation_level(self) -> str | None:
        """The isolation level; None for that of a relation."""
        return self.client.get(_ISOLATION_LEVEL)


def names_relation(given: Mapping[str, str]) -> bool:
    """Returns whether options name the place of a table."""
    names = [name.lower() for name in given]
    return any(name in (_WAREHOUSE, _PARQUET) or name.startswith(_CATALOG) for name in names)


def parse_relation(given: Mapping[str, str]) -> RelationOptions:
    """Raises InvalidOptions, with one line that names the option."""
    values = {name.lower(): str(value) for name, value in given.items()}
    client = {name.removeprefix("kafka."): value for name, value in values.items() if name.startswith("kafka.")}
    catalog = {name.removeprefix(_CATALOG): value for name, value in values.items() if name.startswith(_CATALOG)}
    others = [name for name in values if not name.startswith(("kafka.", _CATALOG))]
    check_names(others, _NAMES, "a relation of ")
    check_client(client)
    topic = values.get("subscribe", "").strip()
    if not topic or "," in topic:
        raise InvalidOptions("a relation is of one topic: give the option 'subscribe' with its name")
    if values.get(_PARQUET) and (values.get(_WAREHOUSE) or catalog):
        raise InvalidOptions("Option 'parquet' excludes 'warehouse' and 'catalog.*': a table has one place")
    value_format = values.get("valueformat", "").lower()
    check_choice("valueFormat", value_format, ("", *_VALUE_FORMATS))
    for name in ("valueSchema", "schemaRegistry", "message"):
        if name.lower() in values and not value_format:
            raise InvalidOptions(f"Option '{name}' needs 'valueFormat', that of the table's archive")
    times = values.get("times", _TIMES[0])
    check_choice("times", times, _TIMES)
    return RelationOptions(
        topic,
        client,
        values.get(_WAREHOUSE) or None,
        values.get(_PARQUET) or None,
        catalog,
        values.get("namespace") or None,
        values.get("table") or None,
        value_format,
        values.get("valueschema"),
        values.get("schemaregistry"),
        values.get("schemaregistryuserinfo"),
        values.get("message"),
        times,
        number(values, "splitBytes"),
    )
