"""Checks of a statement that another user sends: one SELECT of topics, without functions that reach anything else.

DuckDB itself is locked, too (locked_database.py). The check names what is refused, and leaves out functions that take
pointers or that run other statements.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import duckdb

from ..client.user_errors import Misused

#: The catalog and the schema that topics are in.
CATALOG, SCHEMA = "kafka", "main"
#: Functions after FROM; all others read files, settings or pointers.
_TABLE_FUNCTIONS = frozenset(("generate_series", "json_each", "json_tree", "pg_timezone_names", "range", "unnest"))
_PLACES = frozenset(((), (SCHEMA,), (CATALOG, SCHEMA), (CATALOG,)))


def topics_of(database: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    """The topics of a statement. Raises Misused for any that is not one SELECT of topics."""
    if "\0" in sql:
        raise Misused("a statement has no character of code 0")
    try:
        statements = database.extract_statements(sql)
        ((text,),) = database.execute("select json_serialize_sql(?)", [sql]).fetchall()
        parsed = json.loads(text)
        if len(statements) != 1 or parsed.get("error") or len(parsed["statements"]) != 1:
            raise Misused("a query is one SELECT statement")
        return sorted(set(_topics(parsed["statements"][0], frozenset())))
    except duckdb.Error as error:
        raise Misused(str(error)) from None
    except RecursionError:
        raise Misused("the statement is nested too deeply") from None


def select_of(sql: str) -> str:
    """The SELECT of a statement that `topics_of` takes, without the semicolons around it and the comments behind them: so it
    may stand within another one.
    """
    data = sql.encode()  # DuckDB counts bytes
    tokens = [
        (at, data[at : at + 1] == b";" and kind == duckdb.token_type.operator)
        for at, kind in duckdb.tokenize(sql)
        if kind != duckdb.token_type.comment
    ]
    begin = next((at for at, is_end in tokens if not is_end), len(data))
    end = next((at for at, is_end in tokens if is_end and at > begin), len(data))
    return data[begin:end].decode()


def _topics(tree: object, names: frozenset[str]) -> Iterator[str]:
    """The tables of a part of a statement that are not among `names`, those of WITH where the part is. Raises Misused."""
    if isinstance(tree, list):
        for part in tree:
            yield from _topics(part, names)
    if not isinstance(tree, dict):
        return
    _check_node(tree)
    if tree.get("type") == "RECURSIVE_CTE_NODE":
        names |= {str(tree.get("cte_name")).lower()}
    ctes = tree.get("cte_map")
    if isinstance(ctes, dict):
        for one in ctes.get("map", ()):
            yield from _topics(one["value"], names)  # a name of WITH is no table within itself
            names |= {str(one["key"]).lower()}
    if tree.get("type") == "BASE_TABLE":
        table = str(tree["table_name"])
        if _place(tree) or table.lower() not in names:
            yield table
    for name, part in tree.items():
        if name != "cte_map":
            yield from _topics(part, names)


def _place(table: dict[str, object]) -> tuple[str, ...]:
    return tuple(str(table[key]) for key in ("catalog_name", "schema_name") if table.get(key))


def _check_node(node: dict[str, object]) -> None:
    kind = node.get("type")
    if kind == "SHOW_REF":
        raise Misused("SHOW, DESCRIBE and SUMMARIZE are not for a server: clients ask for its tables and columns")
    if kind == "TABLE_FUNCTION":
        function = node.get("function")
        name = str(function.get("function_name", "")) if isinstance(function, dict) else ""
        if name.lower() not in _TABLE_FUNCTIONS:
            raise Misused(f"the function {name} is not allowed after FROM: name a topic there")
    if kind == "BASE_TABLE":
        place = _place(node)
        if place not in _PLACES:
            raise Misused(f"there is no schema {'.'.join(place)}: topics are in {CATALOG}.{SCHEMA}")
