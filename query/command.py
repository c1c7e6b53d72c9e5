"""`odradek query "select ... from TOPIC"`: SQL over topics, by DuckDB."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import duckdb
import typer

from ..admin.connection import Connection
from ..cli.client.options import client_command, new_app
from ..cli.records.record_options import Isolation, MessageName, SchemaRegistry, ValueSchemaFile
from ..client.user_errors import Misused, UserError
from ..columns.errors import ScanError
from ..columns.value_schema import ValueSchema
from ..extras import install_command
from .result import ResultFormat, write_result
from .scans import QueryScans
from .table_reading import TableReading

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from .tables import QueryTables

app = new_app("Query topics with SQL.")
Warehouse = Annotated[
    Path | None,
    typer.Option("--warehouse", metavar="DIR", help="read topics from the tables that `odradek archive` keeps here"),
]
Catalog = Annotated[
    list[str] | None,
    typer.Option("--catalog", metavar="KEY=VALUE", help="the same, by a property of PyIceberg's catalog; repeatable"),
]
Parquet = Annotated[Path | None, typer.Option("--parquet", metavar="DIR", help="the same, from Parquet files")]
Namespace = Annotated[str, typer.Option("--namespace", metavar="NAME", help="of the tables")]
_BY_NAME = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".parquet": "parquet"}


class Form(StrEnum):
    text = "text"
    binary = "binary"
    json = "json"
    avro = "avro"
    protobuf = "protobuf"


@app.command()
@client_command
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="a SELECT of DuckDB's SQL; tables are topics")],
    connection: Connection,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="DIR", help="read this data directory, or a copy, without a broker"),
    ] = None,
    value_format: Annotated[Form, typer.Option("--value-format")] = Form.text,
    schema_registry: SchemaRegistry = None,
    value_schema: ValueSchemaFile = None,
    message: MessageName = None,
    isolation_level: Annotated[Isolation, typer.Option("--isolation-level")] = Isolation.read_committed,
    latest_per_key: Annotated[
        bool, typer.Option("--latest-per-key", help="only the last record of each key, without tombstones")
    ] = False,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="leave out damaged records, with a warning")
    ] = False,
    output_format: Annotated[
        ResultFormat | None, typer.Option("--output", help="output format (default: table)")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="write to this file instead of standard output")
    ] = None,
    warehouse: Warehouse = None,
    catalog: Catalog = None,
    parquet: Parquet = None,
    namespace: Namespace = "kafka",
) -> None:
    """Query topics with SQL: `odradek query "select key, count(*) from orders group by key"`."""
    form = _form(output_format, file)
    has_tables = (warehouse or catalog or parquet) is not None
    if has_tables and (data_dir is not None or latest_per_key or skip_unreadable):
        raise Misused("--data-dir, --latest-per-key and --skip-unreadable read logs alone: leave out the tables")
    values = None
    if value_format not in (Form.text, Form.binary):
        values = ValueSchema.of_options(connection, value_format, value_schema, schema_registry, message)
    options = {
        "isolation_level": isolation_level.value,
        "latest_per_key": latest_per_key,
        "on_unreadable": "skip" if skip_unreadable else "raise",
    }
    scans = QueryScans(connection, data_dir, options, value_format is not Form.binary, values)
    readings: list[QueryScans | QueryTables] = [scans]
    with _explained(readings), duckdb.connect() as database:
        database.execute("set TimeZone = 'UTC'")
        names = _tables(database, sql)
        table: Callable[[str], ds.Dataset] = scans.table
        if has_tables:
            reading = TableReading(namespace, isolation_level.value, values, value_format is not Form.binary)
            tables = _opened(connection, reading, warehouse, catalog, parquet)
            readings.append(tables)
            table = partial(tables.table, otherwise=scans.table)
        for name in names:
            database.register(name, table(name))
        write_result(database, sql, form, file)
        scans.warn()


def _opened(
    connection: Connection,
    reading: TableReading,
    warehouse: Path | None,
    catalog: list[str] | None,
    parquet: Path | None,
) -> QueryTables:
    try:
        from ..archive.table_options import chosen_catalog, explained
        from .tables import QueryTables
    except ImportError as error:
        raise UserError(f"tables need PyIceberg ({error}): {install_command('tables')}") from None
    with explained():
        return QueryTables(connection, chosen_catalog(warehouse, catalog, parquet, must_exist=True), parquet, reading)


@contextmanager
def _explained(readings: Sequence[QueryScans | QueryTables]) -> Iterator[None]:
    """Raises what a user meets as UserError: DuckDB has words of its own, with a traceback, for what a scan raises."""
    try:
        yield
    except (UserError, Misused):
        raise
    except Exception as error:
        failure = next((one.failure for one in readings if one.failure is not None), error)
        if isinstance(failure, ScanError | UserError):
            raise UserError(str(failure), failure.kind) from None
        if isinstance(failure, duckdb.Error | OSError):
            raise UserError(str(failure)) from None
        raise UserError(_unexpected(failure)) from failure


def _unexpected(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0] or "no reason given"
    return f"the query failed with {type(error).__name__}: {first}; `--value-format binary` reads values as they are"


def _form(output_format: ResultFormat | None, file: Path | None) -> ResultFormat:
    form = output_format or ResultFormat(_BY_NAME.get(file.suffix if file else "", "table"))
    if form is ResultFormat.table and file is not None:
        raise Misused("a table can be written to standard output only: leave out --file, or choose another --output")
    if form is ResultFormat.parquet and file is None and sys.stdout.isatty():
        raise Misused("Parquet cannot be printed on a terminal: give --file NAME.parquet")
    return form


def _tables(database: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    """The names of tables in a query. Raises Misused for anything but one SELECT."""
    try:
        statements = database.extract_statements(sql)
    except duckdb.Error as error:
        raise Misused(str(error)) from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise Misused("a query is one SELECT statement")
    names = database.get_table_names(sql)
    return sorted(name for name in names)
