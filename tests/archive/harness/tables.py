"""Tables of both kinds with rows of an imagined topic, without a broker."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from odradek.archive import (
    Covered,
    IcebergSource,
    IcebergTable,
    Maintenance,
    Owner,
    ParquetSource,
    ParquetTable,
    open_catalog,
)
from odradek.archive.rows import DEAD_LETTER_SCHEMA, RAW_SCHEMA
from odradek.archive.store import Source, Table

KINDS = ("iceberg", "parquet")
TOPIC, TOPIC_ID = "my.orders", "AAAAAAAAAAAAAAAAAAAAAA"
START = datetime.datetime(2026, 3, 4, 22, tzinfo=datetime.UTC)


def open_table(kind: str, folder: Path, topic: str | Owner = TOPIC, **options: Any) -> Table:
    owner = Owner(topic) if isinstance(topic, str) else topic
    if kind == "parquet":
        return ParquetTable(folder, owner, **options)
    maintenance = Maintenance(
        **{name: options.pop(name) for name in list(options) if name in Maintenance.__annotations__}
    )
    return IcebergTable(open_catalog(folder, {}), owner, maintenance=maintenance, **options)


def source_of(kind: str, folder: Path, name: str = "my_orders", *, dead_letters: bool = False) -> Source:
    if kind == "parquet":
        return ParquetSource(folder / name, dead_letters=dead_letters)
    return IcebergSource(open_catalog(folder, {}), f"kafka.{name}{'_dead_letters' if dead_letters else ''}")


def rows_of(first: int, end: int, partition: int = 0, *, hours: int = 1) -> pa.Table:
    """Rows of a partition; each has a timestamp `hours` after the one before."""
    found = [
        {
            "partition": partition, "offset": one, "timestamp": START + datetime.timedelta(hours=one * hours),
            "timestamp_type": 0, "key": b"k%d" % one, "value": b"v%d" % one, "headers": [{"key": "h", "value": None}],
        }
        for one in range(first, end)
    ]  # fmt: skip
    return pa.Table.from_pylist(found, RAW_SCHEMA)


def dead_letter_rows(*offsets: int, hours: int = 1) -> pa.Table:
    whole = [rows_of(one, one + 1, hours=hours) for one in offsets]
    rows = pa.concat_tables(whole) if whole else RAW_SCHEMA.empty_table()
    return rows.append_column(DEAD_LETTER_SCHEMA.field("reason"), pa.array(["bad"] * len(offsets), pa.string()))


def covered(offset: int, **others: Any) -> Covered:
    return Covered(TOPIC, TOPIC_ID, {0: offset} | others.get("offsets", {}))


def append(table: Table, first: int, end: int, *dead: int, hours: int = 1) -> None:
    """Commits the rows of partition 0 from `first` up to `end`."""
    table.evolve(RAW_SCHEMA)
    table.write(rows_of(first, end, hours=hours), dead_letter_rows(*dead, hours=hours))
    table.commit(covered(end))


def offsets_of(source: Source, partition: int = 0) -> list[int]:
    """The offsets of all rows of a partition, sorted; one that comes twice is there twice."""
    return sorted(source.read(partition, 0, 1 << 40).column("offset").to_pylist())
