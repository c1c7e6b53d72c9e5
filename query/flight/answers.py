"""Answers of Flight SQL that need no cluster: what the server can do, its catalog, and keys, which topics do not have.

The numbers of infos and the columns of answers are those of FlightSql.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from ...version import __version__
from ..statement import CATALOG, SCHEMA
from .job_answers import TABLE_SCHEMA, TABLE_TYPE, TABLES, is_like

if TYPE_CHECKING:
    from google.protobuf.message import Message

_TEXT, _INT = pa.string(), pa.int32()
_INFO_VALUE = pa.dense_union(
    [
        pa.field("string_value", pa.string()),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(pa.string())),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
    ]
)
_STRING, _BOOL, _BIGINT, _BITMASK = range(4)
#: Number of an info -> the kind of its value, and the value.
_INFOS: dict[int, tuple[int, object]] = {
    0: (_STRING, "Odradek"),
    1: (_STRING, __version__),
    2: (_STRING, pa.__version__),
    3: (_BOOL, True),  # read-only
    4: (_BOOL, True),  # SQL
    5: (_BOOL, False),  # Substrait
    8: (_BITMASK, 0),  # transactions
    9: (_BOOL, True),  # cancel, by the end of a call
    100: (_BITMASK, 0),
    101: (_BITMASK, 0),
    500: (_BOOL, False),
    501: (_BOOL, False),
    502: (_BOOL, False),
    503: (_BIGINT, 0),
    504: (_STRING, '"'),
    505: (_BIGINT, 0),
    506: (_BOOL, False),
    507: (_BIGINT, 0),
}
_KEYS = pa.schema(
    [
        ("pk_catalog_name", _TEXT),
        ("pk_db_schema_name", _TEXT),
        pa.field("pk_table_name", _TEXT, nullable=False),
        pa.field("pk_column_name", _TEXT, nullable=False),
        ("fk_catalog_name", _TEXT),
        ("fk_db_schema_name", _TEXT),
        pa.field("fk_table_name", _TEXT, nullable=False),
        pa.field("fk_column_name", _TEXT, nullable=False),
        pa.field("key_sequence", _INT, nullable=False),
        ("fk_key_name", _TEXT),
        ("pk_key_name", _TEXT),
        pa.field("update_rule", pa.uint8(), nullable=False),
        pa.field("delete_rule", pa.uint8(), nullable=False),
    ]
)
#: Name of a command -> the columns of its answer.
SCHEMAS: dict[str, pa.Schema] = {
    "CommandGetSqlInfo": pa.schema(
        [pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", _INFO_VALUE, nullable=False)]
    ),
    "CommandGetCatalogs": pa.schema([pa.field("catalog_name", _TEXT, nullable=False)]),
    "CommandGetDbSchemas": pa.schema([("catalog_name", _TEXT), pa.field("db_schema_name", _TEXT, nullable=False)]),
    "CommandGetTableTypes": pa.schema([pa.field("table_type", _TEXT, nullable=False)]),
    "CommandGetPrimaryKeys": pa.schema(
        [
            ("catalog_name", _TEXT),
            ("db_schema_name", _TEXT),
            pa.field("table_name", _TEXT, nullable=False),
            pa.field("column_name", _TEXT, nullable=False),
            ("key_name", _TEXT),
            pa.field("key_sequence", _INT, nullable=False),
        ]
    ),
    "CommandGetExportedKeys": _KEYS,
    "CommandGetImportedKeys": _KEYS,
    "CommandGetCrossReference": _KEYS,
}


def schema_of(name: str, command: Message) -> pa.Schema | None:
    """The columns of the answer to a command; None for one that is not of this kind."""
    if name == "CommandGetTables":
        return TABLES.append(TABLE_SCHEMA) if command.include_schema else TABLES
    return SCHEMAS.get(name)


def has_topics(command: Message) -> bool:
    """Whether the filters of CommandGetTables, but that of the names, let topics through."""
    return (
        (not command.HasField("catalog") or command.catalog in (CATALOG, ""))
        and is_like(SCHEMA, _pattern(command, "db_schema_filter_pattern"))
        and (not command.table_types or TABLE_TYPE in command.table_types)
    )


def _pattern(command: Message, field: str) -> str | None:
    return str(getattr(command, field)) if command.HasField(field) else None


def table_of(name: str, command: Message) -> pa.Table:
    """The answer to a command of SCHEMAS, or to CommandGetTables without topics."""
    schema = schema_of(name, command)
    assert schema is not None
    if name == "CommandGetSqlInfo":
        return _infos(schema, list(command.info) or sorted(_INFOS))
    if name == "CommandGetCatalogs":
        return pa.table([[CATALOG]], schema=schema)
    if name == "CommandGetTableTypes":
        return pa.table([[TABLE_TYPE]], schema=schema)
    if name == "CommandGetDbSchemas":
        is_wanted = not command.HasField("catalog") or command.catalog in (CATALOG, "")
        if is_wanted and is_like(SCHEMA, _pattern(command, "db_schema_filter_pattern")):
            return pa.table([[CATALOG], [SCHEMA]], schema=schema)
    return schema.empty_table()


def _infos(schema: pa.Schema, numbers: list[int]) -> pa.Table:
    known = [number for number in numbers if number in _INFOS]
    kinds = [_INFOS[number][0] for number in known]
    values: list[list[object]] = [[] for _ in _INFO_VALUE]
    places = []
    for number, kind in zip(known, kinds, strict=True):
        places.append(len(values[kind]))
        values[kind].append(_INFOS[number][1])
    union = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(places, pa.int32()),
        [pa.array(column, field.type) for column, field in zip(values, _INFO_VALUE, strict=True)],
        [field.name for field in _INFO_VALUE],
    )
    return pa.table([pa.array(known, pa.uint32()), union], schema=schema)


def messages_of(table: pa.Table) -> Iterator[bytes]:
    """The table in messages of Arrow's IPC format, the schema first."""
    yield bytes(table.schema.serialize())
    for batch in table.to_batches():
        yield bytes(batch.serialize())
