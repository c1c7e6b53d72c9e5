"""`odradek table status` and `odradek table maintain`: the tables that `odradek archive` keeps."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ..cli.client.options import client_command, new_app
from ..cli.output import Output
from ..cli.output import Table as ResultTable
from .iceberg import DEFAULT_NAMESPACE
from .maintenance import KEEP_SNAPSHOTS_S, Maintenance
from .table_options import Catalog, KeepSnapshots, Namespace, Parquet, Warehouse, chosen_catalog, explained
from .table_status import (
    iceberg_tables,
    maintain_iceberg,
    maintain_parquet,
    parquet_folders,
    status_of_iceberg,
    status_of_parquet,
)

app = new_app("Show and maintain the tables that `odradek archive` keeps.")

Names = Annotated[
    list[str] | None, typer.Argument(metavar="[TABLE...]", help="names of tables (default: all)", show_default=False)
]


@app.command("status")
@client_command
def status(
    output: Output,
    names: Names = None,
    warehouse: Warehouse = None,
    catalog: Catalog = None,
    parquet: Parquet = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    keep_snapshots: KeepSnapshots = KEEP_SNAPSHOTS_S,
) -> None:
    """Show topics, rows, files, snapshots and offsets, and the maintenance that is due."""
    maintenance = Maintenance(snapshots_s=keep_snapshots)
    with explained():
        found = chosen_catalog(warehouse, catalog, parquet, must_exist=True)
        if parquet is not None:
            every = [status_of_parquet(one) for one in parquet_folders(parquet, names)]
        else:
            every = [status_of_iceberg(one, maintenance) for one in iceberg_tables(found, namespace, names)]
    columns = (
        "TABLE", "TOPIC", "HAS", "ROWS", "FILES", "BYTES", "SNAPSHOTS", "FILES TO MERGE", "SNAPSHOTS TO EXPIRE", "VALUE",
        "KEY",
    )  # fmt: skip
    rows = [
        [
            one.table, one.owner.topic, one.owner.role, one.rows, one.files, one.bytes, one.snapshots, one.files_to_merge,
            one.snapshots_to_expire, one.value, one.key,
        ]
        for one in every
    ]  # fmt: skip
    output.show([one.as_dict() for one in every], ResultTable("", columns, rows))


@app.command("maintain")
@client_command
def maintain(
    output: Output,
    names: Names = None,
    warehouse: Warehouse = None,
    catalog: Catalog = None,
    parquet: Parquet = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    keep_snapshots: KeepSnapshots = KEEP_SNAPSHOTS_S,
    orphans_after: Annotated[
        float,
        typer.Option("--orphans-after", metavar="SECONDS", help="age of files without a snapshot that are deleted"),
    ] = Maintenance.orphans_s,
) -> None:
    """Delete old rows (--row-ttl), merge small files, expire snapshots, and delete files that no snapshot has."""
    maintenance = Maintenance(snapshots_s=keep_snapshots, orphans_s=orphans_after)
    with explained():
        found = chosen_catalog(warehouse, catalog, parquet, must_exist=True)
        if parquet is not None:
            every = [maintain_parquet(one) for one in parquet_folders(parquet, names)]
        else:
            every = [maintain_iceberg(one, maintenance) for one in iceberg_tables(found, namespace, names)]
    columns = ("TABLE", "DELETED ROWS", "MERGED FILES", "EXPIRED SNAPSHOTS", "DELETED FILES")
    dicts = [asdict(one) for one in every]
    output.show(dicts, ResultTable("", columns, [list(one.values()) for one in dicts]))
