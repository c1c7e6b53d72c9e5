"""`odradek table status`, `maintain` and `rebuild`: the tables that `odradek archive` keeps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from pyiceberg.catalog import Catalog as CatalogOfTables

from ..admin.connection import Connection
from ..admin.table_owner import Role
from ..cli.client.options import client_command, new_app
from ..cli.messages import warn
from ..cli.output import Output
from ..cli.output import Table as ResultTable
from ..cli.records.record_options import Isolation, IsolationLevel, MessageName, SchemaRegistry, ValueSchemaFile
from ..client.error_kinds import ErrorKind
from ..client.user_errors import UserError
from .archiver import Archiver
from .column_types import Times
from .command import opener, show_archived
from .followed_status import followed_tables
from .iceberg import DEFAULT_NAMESPACE
from .maintenance import KEEP_SNAPSHOTS_S, Maintenance
from .store import ArchiveError
from .stored_layout import StoredLayout
from .table_options import Catalog, KeepSnapshots, Namespace, Parquet, Warehouse, chosen_catalog, explained
from .table_status import (
    iceberg_tables,
    maintain_iceberg,
    maintain_parquet,
    parquet_folders,
    status_of_iceberg,
    status_of_parquet,
)
from .topic_archive import Archived, ArchiveOptions
from .value_options import Form, SkipUnreadable, TimesForm, ValueFormat, chosen_values

app = new_app("Show, maintain and rebuild the tables that `odradek archive` keeps.")

Names = Annotated[
    list[str] | None, typer.Argument(metavar="[TABLE...]", help="names of tables (default: all)", show_default=False)
]

MergeBytes = Annotated[
    int | None,
    typer.Option("--merge-bytes", metavar="BYTES", min=1, help="of files to merge in each table (default: all due)"),
]


@app.command("status")
@client_command
def status(
    connection: Connection,
    output: Output,
    names: Names = None,
    warehouse: Warehouse = None,
    catalog: Catalog = None,
    parquet: Parquet = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    keep_snapshots: KeepSnapshots = KEEP_SNAPSHOTS_S,
) -> None:
    """Show topics, rows, files, snapshots and offsets, and the maintenance that is due.

    Without --warehouse, --catalog and --parquet: the tables that follow topics of a cluster, with their states and lag.
    """
    if warehouse is None and not catalog and parquet is None:
        _show_followed(connection, output, names, namespace)
        return
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


def _show_followed(connection: Connection, output: Output, names: list[str] | None, namespace: str) -> None:
    with connection.admin() as admin:
        every = followed_tables(admin, namespace)
    known = {name for one in every for name in (one.table, one.table.removeprefix(f"{namespace}."))}
    missing = sorted(set(names or ()) - known)
    if missing:
        raise UserError(f"no topic of the cluster has a table {missing[0]}", ErrorKind.NOT_FOUND)
    chosen = [one for one in every if not names or {one.table, one.table.removeprefix(f"{namespace}.")} & set(names)]
    columns = ("TABLE", "TOPIC", "BROKER", "STATE", "LAG", "COMMITTED", "ERROR")
    rows = [[one.table, one.topic, one.broker, one.state, one.lag, _time(one.commit_ms), one.error] for one in chosen]
    output.show([one.as_dict() for one in chosen], ResultTable("", columns, rows))


def _time(moment_ms: int | None) -> str:
    return "" if moment_ms is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment_ms / 1000))


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
    merge_bytes: MergeBytes = None,
) -> None:
    """Delete old rows (--row-ttl), merge small files, expire snapshots, and delete files that no snapshot has."""
    maintenance = Maintenance(snapshots_s=keep_snapshots, orphans_s=orphans_after)
    with explained():
        found = chosen_catalog(warehouse, catalog, parquet, must_exist=True)
        if parquet is not None:
            every = [maintain_parquet(one, merge_bytes) for one in parquet_folders(parquet, names)]
        else:
            every = [maintain_iceberg(one, maintenance, merge_bytes) for one in iceberg_tables(found, namespace, names)]
    columns = ("TABLE", "DELETED ROWS", "MERGED FILES", "EXPIRED SNAPSHOTS", "DELETED FILES")
    dicts = [asdict(one) for one in every]
    output.show(dicts, ResultTable("", columns, [list(one.values()) for one in dicts]))


@app.command("rebuild")
@client_command
def rebuild(
    names: Annotated[list[str], typer.Argument(metavar="TABLE...", help="names of tables")],
    connection: Connection,
    output: Output,
    warehouse: Warehouse = None,
    catalog: Catalog = None,
    parquet: Parquet = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    value_format: ValueFormat = Form.raw,
    schema_registry: SchemaRegistry = None,
    value_schema: ValueSchemaFile = None,
    message: MessageName = None,
    times: TimesForm = Times.native,
    isolation_level: IsolationLevel = Isolation.read_committed,
    skip_unreadable: SkipUnreadable = False,
) -> None:
    """Make tables anew from the logs of their topics, with the keys and partitions that they have.

    The new rows take the place of the old ones in one commit. A table whose log lacks records of it stays as it is.
    """
    values = chosen_values(connection, value_format, value_schema, schema_registry, message)
    with explained():
        found = chosen_catalog(warehouse, catalog, parquet, must_exist=True)
        every = list(_layouts(found, parquet, namespace, names))
        for one in every:
            one.check_values(are_raw=values is None)
        archived: list[Archived] = []
        try:
            for one in every:
                options = ArchiveOptions(
                    values=values, keep_value=one.keeps_value, isolation_level=isolation_level.value,
                    skip_unreadable=skip_unreadable, rebuild=True, times=times, on_note=warn,
                )  # fmt: skip
                opened = opener(
                    found, warehouse, parquet, namespace, {one.owner.topic: one.name}, one.layout, Maintenance()
                )
                archiver = Archiver(connection.properties, [one.owner.topic], opened, options)
                try:
                    archiver.run(once=True)
                finally:
                    archived += archiver.archived
        finally:
            if archived:  # no topic had a turn where the login is rejected
                show_archived(output, archived)


def _layouts(
    catalog: CatalogOfTables, parquet: Path | None, namespace: str, names: list[str]
) -> Iterator[StoredLayout]:
    """The layouts of named tables. Raises ArchiveError for one of dead-letter records, which come with their tables."""
    if parquet is not None:
        yield from map(StoredLayout.of_parquet, parquet_folders(parquet, names))
        return
    for table in iceberg_tables(catalog, namespace, names):
        found = StoredLayout.of_iceberg(table)
        if found.owner.role != Role.rows:
            raise ArchiveError(
                f"table {found.name} has {found.owner.role}: name the table of topic {found.owner.topic}"
            )
        yield found
