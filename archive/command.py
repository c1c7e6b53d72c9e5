"""`odradek archive TOPIC...` keeps topics as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ..admin.connection import Connection
from ..admin.table_owner import Owner
from ..cli.client.options import client_command, new_app
from ..cli.messages import warn
from ..cli.output import Output
from ..cli.output import Table as ResultTable
from ..cli.records.record_options import Isolation, IsolationLevel, MessageName, SchemaRegistry, ValueSchemaFile
from ..cli.stop_signals import stop_on_signals
from ..client.properties import pairs
from ..client.user_errors import Misused, UserError
from ..extras import install_command
from .archiver import Archiver
from .column_types import Times
from .iceberg import DEFAULT_NAMESPACE, IcebergTable
from .keyed import Envelope, Keyed
from .keyed_options import EnvelopeForm, Key, RowTtl, SortBy, chosen_keyed, partition_unit
from .keyed_table import KeyedTable
from .maintenance import KEEP_SNAPSHOTS_S, Maintenance
from .ownership import chosen_names
from .parquet import ParquetTable
from .store import ArchiveError, PartitionBy, Table
from .table_options import Catalog, KeepSnapshots, Namespace, Parquet, Warehouse, chosen_catalog, explained
from .topic_archive import FRESHNESS_S, Archived, ArchiveOptions, TopicArchive
from .value_options import Form, SkipUnreadable, TimesForm, ValueFormat, chosen_values

app = new_app("Keep topics as tables: Apache Iceberg or plain Parquet.")

_LEAST_FRESHNESS_S = 0.1

KeepValue = Annotated[
    bool, typer.Option("--keep-value", help="the bytes of values beside typed columns, for `odradek replay`")
]
TableNames = Annotated[
    list[str] | None,
    typer.Option(
        "--table", metavar="TOPIC=NAME", help="name of a topic's table (default: the topic's, with underscores)"
    ),
]
Partitions = Annotated[
    str | None,
    typer.Option(
        "--partition-by",
        metavar="hour|day|month|none",
        help="unit of the timestamp that partitions the tables (default: day); with --key, columns",
        show_default=False,
    ),
]
Freshness = Annotated[
    float, typer.Option("--freshness", metavar="SECONDS", help="a record is in the table after this time")
]
Rebuild = Annotated[
    bool, typer.Option("--rebuild", help="make existing tables anew from the log, with the types that values have now")
]
CommitGroup = Annotated[
    str | None,
    typer.Option(
        "--commit-group", metavar="GROUP", help="group for the tables' offsets (default: one of each table; `none`)"
    ),
]
SparkMaster = Annotated[
    str | None,
    typer.Option("--spark", metavar="MASTER", help="read and write in tasks of Spark: local[4], sc://host, `default`"),
]


@app.command()
@client_command
def archive(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="topics to keep as tables")],
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
    keep_value: KeepValue = False,
    times: TimesForm = Times.native,
    table: TableNames = None,
    key: Key = None,
    envelope: EnvelopeForm = Envelope.none,
    sort_by: SortBy = None,
    row_ttl: RowTtl = None,
    partition_by: Partitions = None,
    freshness: Freshness = FRESHNESS_S,
    once: Annotated[bool, typer.Option("--once", help="stop at the end of the topics")] = False,
    isolation_level: IsolationLevel = Isolation.read_committed,
    skip_unreadable: SkipUnreadable = False,
    rebuild: Rebuild = False,
    spark: SparkMaster = None,
    keep_snapshots: KeepSnapshots = KEEP_SNAPSHOTS_S,
    commit_group: CommitGroup = None,
) -> None:
    """Keep topics as tables: `odradek archive orders --warehouse tables`. Goes on where the tables end."""
    if spark is not None and parquet is not None:
        raise Misused("--spark writes Iceberg tables: give --warehouse or --catalog")
    keyed = chosen_keyed(key, envelope, sort_by, row_ttl, partition_by)
    _check_keyed(keyed, value_format, is_iceberg_here=spark is None and parquet is None)
    if commit_group is not None and not commit_group.strip():
        raise Misused("--commit-group takes the name of a group, or none")
    if freshness < _LEAST_FRESHNESS_S:
        raise Misused(f"--freshness must be at least {_LEAST_FRESHNESS_S:g} seconds")
    options = ArchiveOptions(
        values=chosen_values(connection, value_format, value_schema, schema_registry, message),
        keep_value=keep_value,
        freshness_s=freshness,
        isolation_level=isolation_level.value,
        skip_unreadable=skip_unreadable,
        rebuild=rebuild,
        times=times,
        commit_group=commit_group,
        on_note=warn,
    )
    names = _names(topics, table)
    with explained():
        opened = opener(
            chosen_catalog(warehouse, catalog, parquet), warehouse, parquet, namespace, names,
            keyed or partition_unit(partition_by), Maintenance(snapshots_s=keep_snapshots),
        )  # fmt: skip
        with _opened_archives(spark) as open_archive:
            archiver = Archiver(
                connection.properties, topics, opened, options, on_error=None if once else _warn,
                open_archive=open_archive,
            )  # fmt: skip
            stop_on_signals(archiver.stop)
            try:
                archiver.run(once=once)
            finally:
                if archiver.archived:  # no topic had a turn where the login is rejected
                    show_archived(output, archiver.archived)
            archiver.raise_first()


def _check_keyed(keyed: Keyed | None, value_format: Form, *, is_iceberg_here: bool) -> None:
    """Raises Misused for a keyed table that other options exclude."""
    if keyed is not None and not is_iceberg_here:
        raise Misused("--key writes Iceberg tables in this process: give --warehouse or --catalog, and no --spark")
    if keyed is not None and keyed.envelope is not Envelope.none and value_format is Form.raw:
        raise Misused("--envelope needs --value-format")


def _names(topics: list[str], given: list[str] | None) -> Mapping[str, str]:
    """The tables of topics. Raises Misused."""
    only = given[0] if given is not None and len(given) == len(topics) == 1 and "=" not in given[0] else None
    try:
        return chosen_names(topics, {topics[0]: only} if only is not None else pairs(given or [], "--table"))
    except ArchiveError as error:
        raise Misused(str(error)) from None


def show_archived(output: Output, archived: list[Archived]) -> None:
    """Shows the counts of topics, and their states."""
    found = [
        {"topic": one.topic, "rows": one.rows, "dead_letter_records": one.dead_letter_records, "commits": one.commits}
        | {"state": one.state, "error": None if one.error is None else str(one.error)}
        for one in archived
    ]
    columns = ("TOPIC", "ROWS", "DEAD-LETTER RECORDS", "COMMITS", "STATE")
    output.show(found, ResultTable("", columns, [list(one.values())[:-1] for one in found]))


@contextmanager
def _opened_archives(master: str | None) -> Iterator[Callable[[str, Table, ArchiveOptions], TopicArchive]]:
    """Archives that read in this process, or in tasks of a session of Spark, which ends afterwards."""
    if master is None:
        yield TopicArchive
        return
    try:
        from . import spark_tasks
    except ImportError as error:
        raise UserError(f"--spark needs Spark ({error}): {install_command('spark', 'tables')}") from None
    session = spark_tasks.spark_session(master)
    try:
        yield spark_tasks.opener(session)
    finally:
        session.stop()


def _warn(topic: str, error: Exception) -> None:
    warn(f"topic {topic}: {error}")


def opener(
    catalog: Any,
    warehouse: Path | None,
    parquet: Path | None,
    namespace: str,
    names: Mapping[str, str],
    layout: PartitionBy | Keyed,
    maintenance: Maintenance,
) -> Callable[[Owner], Table]:
    """Opens the tables of topics. `names`: topic -> table. `catalog`: None for those of the folder `parquet`."""
    if isinstance(layout, Keyed):
        return lambda owner: KeyedTable(
            catalog, owner, layout, namespace=namespace, name=names[owner.topic], maintenance=maintenance,
            lock_folder=warehouse,
        )  # fmt: skip
    if parquet is not None:
        return lambda owner: ParquetTable(parquet, owner, name=names[owner.topic], partition_by=layout)
    return lambda owner: IcebergTable(
        catalog, owner, namespace=namespace, name=names[owner.topic], partition_by=layout,
        maintenance=maintenance, lock_folder=warehouse,
    )  # fmt: skip
