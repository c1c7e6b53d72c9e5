"""Records of an imagined topic for keyed tables, a model of their rows, and the rows of a table by several engines."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
from odradek.archive import Maintenance, Owner, open_catalog
from odradek.archive.keyed import Keyed
from odradek.archive.keyed_table import KeyedTable
from odradek.archive.rows import RAW_SCHEMA

from tests.archive.harness.tables import START, TOPIC


@dataclass(frozen=True)
class Record:
    """`seconds`: its timestamp after the start of the imagined topic; a value of None deletes the row."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None
    seconds: int = 0


class Model:
    """The rows of a keyed table by the rule in words: no part of it is shared with the table."""

    def __init__(self) -> None:
        self._records: dict[bytes, dict[int, list[Record]]] = {}

    def add(self, records: Iterable[Record]) -> None:
        for one in records:
            self._records.setdefault(one.key, {}).setdefault(one.partition, []).append(one)

    def rows(self) -> dict[bytes, tuple[bytes, int, int]]:
        """Key -> value, partition and offset."""
        found = {}
        for key, partitions in self._records.items():
            decides = max(partitions, key=lambda one: (max(each.seconds for each in partitions[one]), one))
            last = max(partitions[decides], key=lambda one: one.offset)
            if last.value is not None:
                found[key] = (last.value, last.partition, last.offset)
        return found


def raw_rows(records: Sequence[Record]) -> pa.Table:
    found = [
        {
            "partition": one.partition, "offset": one.offset, "timestamp_type": 0, "key": one.key, "value": one.value,
            "timestamp": START + datetime.timedelta(seconds=one.seconds), "headers": [],
        }
        for one in records
    ]  # fmt: skip
    return pa.Table.from_pylist(found, RAW_SCHEMA)


def open_keyed(folder: Path, keyed: Keyed, topic: str | Owner = TOPIC, **options: Any) -> KeyedTable:
    owner = Owner(topic) if isinstance(topic, str) else topic
    maintenance = Maintenance(
        **{name: options.pop(name) for name in list(options) if name in Maintenance.__annotations__}
    )
    return KeyedTable(open_catalog(folder, {}), owner, keyed, maintenance=maintenance, **options)


def scanned(folder: Path, name: str = "my_orders") -> pa.Table:
    return open_catalog(folder, {}).load_table(f"kafka.{name}").scan().to_arrow()


def keyed_rows(rows: pa.Table) -> dict[bytes, tuple[bytes, int, int]]:
    """The rows of a raw table as `Model.rows`. Fails for a key that has two rows."""
    listed = rows.select(["key", "value", "partition", "offset"]).to_pylist()
    found = {one["key"]: (one["value"], one["partition"], one["offset"]) for one in listed}
    assert len(found) == len(listed), "a key has two rows"
    return found


def rows_by_engine(folder: Path, name: str = "my_orders") -> dict[str, dict[bytes, tuple[bytes, int, int]]]:
    """The rows of a raw table as PyIceberg, DuckDB and Polars read them."""
    table = open_catalog(folder, {}).load_table(f"kafka.{name}")
    frame = polars.scan_iceberg(table).select("key", "value", "partition", "offset").collect()
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    in_files = (
        duckdb.sql(f"from read_parquet({files}, union_by_name=true)").to_arrow_table()
        if files
        else scanned(folder, name)
    )
    return {
        "pyiceberg": keyed_rows(table.scan().to_arrow()),
        "polars": keyed_rows(frame.to_arrow()),
        "duckdb": keyed_rows(table.scan().to_duckdb("t").sql("from t").to_arrow_table()),
        "files": keyed_rows(in_files),
    }
