"""A database of DuckDB that reads the datasets that are registered, and no file, extension or address.

It is for statements of users of a server. Its configuration cannot be changed once the datasets are in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import duckdb

from .sql_names import check_topics
from .statement import CATALOG, SCHEMA

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_LOCKED = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "max_temp_directory_size": "0KB",
    "python_enable_replacements": "false",
}


def locked_database(memory_bytes: int, threads: int = 1) -> duckdb.DuckDBPyConnection:
    """A database in memory without datasets, for checks of statements; `lock` ends its making."""
    config: dict[str, str | bool | int | float | list[str]] = {
        **_LOCKED,
        "memory_limit": f"{memory_bytes >> 20}MiB",
        "threads": str(threads),
    }
    database = duckdb.connect(":memory:", config=config)
    database.execute("set TimeZone = 'UTC'")
    database.execute(f"attach ':memory:' as {CATALOG}; use {CATALOG}")
    return database


def lock(database: duckdb.DuckDBPyConnection, datasets: Mapping[str, ds.Dataset]) -> None:
    """Adds the datasets as tables of CATALOG.SCHEMA, and locks the configuration. Raises Misused for names of one table."""
    check_topics(datasets)
    for name, dataset in datasets.items():
        database.register(name, dataset)
        quoted = '"' + name.replace('"', '""') + '"'
        database.execute(f"create view {CATALOG}.{SCHEMA}.{quoted} as select * from temp.main.{quoted}")
    database.execute("set lock_configuration = true")
