"""`odradek archive TOPIC...` keeps topics as tables, `odradek replay TABLE TOPIC` writes a table back into a topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..cli.client.connection import Connection
from ..cli.client.errors import CommandError, Misused
from ..cli.client.options import Output, client_command, new_app
from ..cli.client.properties import pairs
from ..cli.options import FAILED, warn
from ..cli.output import Progress
from ..cli.output import Table as ResultTable
from ..cli.records.record_options import Isolation, MessageName, SchemaRegistry, ValueSchemaFile
from ..cli.stop_signals import stop_on_signals
from ..columns import ScanError, ValueSchema
from .archiver import FRESHNESS_S, ArchiveOptions, Archiver, SparkEnded, TopicArchive
from .iceberg import DEFAULT_NAMESPACE, IcebergSource, IcebergTable, Maintenance, open_catalog
from .parquet import ParquetSource, ParquetTable
from .replay import Replay, ReplayRange
from .store import ArchiveError, PartitionBy, Source, Table

app = new_app("Keep topics as tables: Apache Iceberg or plain Parquet.")

Warehouse = Annotated[
    Path | None,
    typer.Option("--warehouse", metavar="DIR", help="Iceberg tables in this folder, with a catalog of SQLite"),
]
Catalog = Annotated[
    list[str] | None,
    typer.Option(
        "--catalog", metavar="KEY=VALUE", help="a property of PyIceberg's catalog, such as uri=...; repeatable"
    ),
]
Parquet = Annotated[
    Path | None, typer.Option("--parquet", metavar="DIR", help="plain Parquet files in this folder, without a catalog")
]
_LEAST_FRESHNESS_S = 0.1


class Form(StrEnum):
    raw = "raw"
    json = "json"
    avro = "avro"
    protobuf = "protobuf"


@app.command()
@client_command
def archive(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="topics to keep as tables")],
    connection: Connection,
    output: Output,
    warehouse: Warehouse = None,
    catalog: Catalog = None,
    parquet: Parquet = None,
    namespace: Annotated[str, typer.Option("--namespace", metavar="NAME", help="of the tables")] = DEFAULT_NAMESPACE,
    value_format: Annotated[Form, typer.Option("--value-format", help="typed columns, or bytes")] = Form.raw,
    schema_registry: SchemaRegistry = None,
    value_schema: ValueSchemaFile = None,
    message: MessageName = None,
    keep_value: Annotated[
        bool, typer.Option("--keep-value", help="the bytes of values beside typed columns, for `odradek replay`")
    ] = False,
    partition_by: Annotated[
        PartitionBy, typer.Option("--partition-by", help="unit of the timestamp that partitions the tables")
    ] = PartitionBy.day,
    freshness: Annotated[
        float, typer.Option("--freshness", metavar="SECONDS", help="a record is in the table after this time")
    ] = FRESHNESS_S,
    once: Annotated[bool, typer.Option("--once", help="stop at the end of the topics")] = False,
    isolation_level: Annotated[Isolation, typer.Option("--isolation-level")] = Isolation.read_committed,
    skip_unreadable: Annotated[
        bool,
        typer.Option("--skip-unreadable", help="continue after damaged and deleted records, with a dead-letter record"),
    ] = False,
    spark: Annotated[
        str | None,
        typer.Option(
            "--spark", metavar="MASTER", help="read and write in tasks of Spark: local[4], sc://host, `default`"
        ),
    ] = None,
    keep_snapshots: Annotated[
        float, typer.Option("--keep-snapshots", metavar="SECONDS", help="age at which Iceberg snapshots expire")
    ] = Maintenance.snapshots_s,
) -> None:
    """Keep topics as tables: `odradek archive orders --warehouse tables`. Goes on where the tables end."""
    if spark is not None and parquet is not None:
        raise Misused("--spark writes Iceberg tables: give --warehouse or --catalog")
    if freshness < _LEAST_FRESHNESS_S:
        raise Misused(f"--freshness must be at least {_LEAST_FRESHNESS_S:g} seconds")
    values = None
    if value_format is not Form.raw:
        values = ValueSchema(value_format.value, value_schema, schema_registry, message)
    options = ArchiveOptions(
        values=values,
        keep_value=keep_value,
        freshness_s=freshness,
        isolation_level=isolation_level.value,
        skip_unreadable=skip_unreadable,
    )
    with explained():
        opened = _opener(
            chosen_catalog(warehouse, catalog, parquet), warehouse, parquet, namespace, partition_by,
            Maintenance(snapshots_s=keep_snapshots),
        )  # fmt: skip
        with _opened_archives(spark) as open_archive:
            archiver = Archiver(
                connection.properties, topics, opened, options, on_error=None if once else _warn,
                open_archive=open_archive,
            )  # fmt: skip
            stop_on_signals(archiver.stop)
            done = archiver.run(once=once)
    found = [
        {"topic": one.topic, "rows": one.rows, "dead_letter_records": one.dead_letter_records, "commits": one.commits}
        for one in done
    ]
    columns = ("TOPIC", "ROWS", "DEAD-LETTER RECORDS", "COMMITS")
    output.show(found, ResultTable("", columns, [list(one.values()) for one in found]))


@contextmanager
def _opened_archives(master: str | None) -> Iterator[Callable[[str, Table, ArchiveOptions], TopicArchive]]:
    """Archives that read in this process, or in tasks of a session of Spark, which ends afterwards."""
    if master is None:
        yield TopicArchive
        return
    try:
        from . import spark_tasks
    except ImportError as error:
        raise CommandError(f"--spark needs Spark ({error}): pip install 'odradek[spark,tables]'") from None
    session = spark_tasks.spark_session(master)
    try:
        yield spark_tasks.opener(session)
    finally:
        session.stop()


def _warn(topic: str, error: Exception) -> None:
    warn(f"topic {topic}: {error}")


def chosen_catalog(warehouse: Path | None, catalog: list[str] | None, parquet: Path | None) -> Any:
    """The catalog of the options; None for Parquet. Raises Misused, ArchiveError."""
    if sum(one is not None for one in (warehouse or catalog or None, parquet)) != 1:
        raise Misused("give --warehouse DIR, --catalog KEY=VALUE, or --parquet DIR")
    # PyIceberg logs each problem that it repeats or leaves; errors are raised.
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    return None if parquet is not None else open_catalog(warehouse, _properties(catalog))


def _properties(catalog: list[str] | None) -> Mapping[str, str]:
    return pairs(catalog or [], "--catalog")


def _opener(
    catalog: Any,
    warehouse: Path | None,
    parquet: Path | None,
    namespace: str,
    partition_by: PartitionBy,
    maintenance: Maintenance,
) -> Callable[[str], Table]:
    if parquet is not None:
        return lambda topic: ParquetTable(parquet, topic, partition_by=partition_by)
    return lambda topic: IcebergTable(
        catalog, topic, namespace=namespace, partition_by=partition_by, maintenance=maintenance, lock_folder=warehouse
    )


@contextmanager
def explained() -> Iterator[None]:
    """Raises errors of archives and scans as errors of a command."""
    try:
        yield
    except (ArchiveError, ScanError, SparkEnded) as error:
        raise CommandError(str(error), getattr(error, "status", FAILED)) from None


# `odradek replay TABLE TOPIC`: a table, or a range of it, back into a topic.


replay_app = new_app("Write a table back into a topic.")
_DEAD_LETTERS = "/dead_letters"


@replay_app.command()
@client_command
def replay(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="NAMESPACE.TABLE, or the topic's folder below --parquet")
    ],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="the topic to write to, with partitions enough")],
    connection: Connection,
    output: Output,
    warehouse: Warehouse = None,
    catalog: Catalog = None,
    parquet: Parquet = None,
    partition: Annotated[list[int] | None, typer.Option("--partition", metavar="N", help="repeatable")] = None,
    start_offset: Annotated[int | None, typer.Option("--start-offset", metavar="N")] = None,
    end_offset: Annotated[int | None, typer.Option("--end-offset", metavar="N", help="the first one left out")] = None,
    start_timestamp: Annotated[
        str | None, typer.Option("--start-timestamp", metavar="TIME", help="milliseconds, or 2026-11-26T08:00Z")
    ] = None,
    end_timestamp: Annotated[
        str | None, typer.Option("--end-timestamp", metavar="TIME", help="the first one left out")
    ] = None,
    rate: Annotated[float | None, typer.Option("--rate", metavar="N", help="the highest rate, in records/s")] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="name of the progress (default: of table, topic and range)"),
    ] = None,
) -> None:
    """Write a table back into a topic: `odradek replay kafka.orders orders-again --warehouse tables`.

    The same command goes on where an interrupted one stopped.
    """
    if rate is not None and rate <= 0:
        raise Misused("--rate must be more than 0")
    within = ReplayRange(
        partition, start_offset, end_offset, _milliseconds(start_timestamp), _milliseconds(end_timestamp)
    )
    with explained():
        found = chosen_catalog(warehouse, catalog, parquet)
        source: Source = _folder(parquet, table) if parquet is not None else IcebergSource(found, table)
        made = Replay(source, connection.properties, topic, within, rate=rate, name=name)
        with Progress("records", made.total) as progress:
            made.on_progress = progress.advance
            done = made.run()
    if done.replaced_timestamps:
        warn(f"{done.replaced_timestamps} records have the timestamp 0: they were written with the current time")
    row = {"topic": topic, "records": done.records, "transactions": done.transactions, "progress": made.name}
    output.show([row], ResultTable("", ("TOPIC", "RECORDS", "TRANSACTIONS", "PROGRESS"), [list(row.values())]))


def _folder(parquet: Path, table: str) -> ParquetSource:
    name = table.removesuffix(_DEAD_LETTERS)
    return ParquetSource(parquet / name, dead_letters=name != table)


def _milliseconds(text: str | None) -> int | None:
    """Raises Misused for a text that is no time."""
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Misused(f"{text!r} is not a time: milliseconds, or 2026-11-26T08:00Z") from None
    return int((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000)
