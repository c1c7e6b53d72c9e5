"""`odradek query "select ... from TOPIC"`: SQL over topics, by DuckDB."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import duckdb
import typer

from ..admin.connection import Connection
from ..cli.client.options import client_command, new_app
from ..cli.records.record_options import Isolation, IsolationLevel, MessageName, SchemaRegistry, ValueSchemaFile
from ..client.user_errors import Misused
from ..columns.value_schema import ValueSchema
from .explained_errors import explained
from .flight.jobs import JobLimits
from .result import ResultFormat, write_result
from .sources import OpenSources, QuerySources, TablePlace
from .sql_names import check_fields, check_topics

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
Statement = Annotated[
    str | None, typer.Argument(metavar="SQL", help="a SELECT of DuckDB's SQL; tables are topics", show_default=False)
]
DataDirectory = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="read this data directory, or a copy, without a broker")
]
LatestPerKey = Annotated[
    bool, typer.Option("--latest-per-key", help="only the last record of each key, without tombstones")
]
SkipUnreadable = Annotated[bool, typer.Option("--skip-unreadable", help="leave out damaged records, with a warning")]
ResultFile = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="write to this file instead of standard output")
]
Serve = Annotated[
    str | None,
    typer.Option("--serve", metavar="HOST:PORT", help="serve queries by Arrow Flight SQL, with the brokers' logins"),
]
Certificate = Annotated[
    Path | None, typer.Option("--tls-certificate", metavar="FILE", help="with --serve: certificate, PEM")
]
Key = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="with --serve: private key, PEM")]
Anonymous = Annotated[
    bool, typer.Option("--anonymous", help="with --serve: off loopback, too, where the brokers have no logins")
]
MostQueries = Annotated[
    int, typer.Option("--max-queries", metavar="N", min=1, max=64, help="with --serve: queries at the same time")
]
QueryMemory = Annotated[
    int, typer.Option("--query-memory", metavar="MIB", min=256, help="with --serve: memory of each query")
]
QueryTimeout = Annotated[
    float, typer.Option("--query-timeout", metavar="SECONDS", min=1, help="with --serve: time of each query")
]
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
    connection: Connection,
    sql: Statement = None,
    data_dir: DataDirectory = None,
    value_format: Annotated[Form, typer.Option("--value-format")] = Form.text,
    schema_registry: SchemaRegistry = None,
    value_schema: ValueSchemaFile = None,
    message: MessageName = None,
    isolation_level: IsolationLevel = Isolation.read_committed,
    latest_per_key: LatestPerKey = False,
    skip_unreadable: SkipUnreadable = False,
    output_format: Annotated[
        ResultFormat | None, typer.Option("--output", help="output format (default: table)")
    ] = None,
    file: ResultFile = None,
    warehouse: Warehouse = None,
    catalog: Catalog = None,
    parquet: Parquet = None,
    namespace: Namespace = "kafka",
    serve: Serve = None,
    certificate: Certificate = None,
    key: Key = None,
    anonymous: Anonymous = False,
    most_queries: MostQueries = 4,
    query_memory: QueryMemory = 1024,
    query_timeout: QueryTimeout = 300.0,
) -> None:
    """Query topics with SQL: `odradek query "select key, count(*) from orders group by key"`."""
    place = TablePlace(warehouse, tuple(catalog or ()), parquet)
    if place and (data_dir is not None or latest_per_key or skip_unreadable):
        raise Misused("--data-dir, --latest-per-key and --skip-unreadable read logs alone: leave out the tables")
    values = None
    if value_format not in (Form.text, Form.binary):
        values = ValueSchema.of_options(connection, value_format, value_schema, schema_registry, message)
    options: dict[str, object] = {
        "isolation_level": isolation_level.value,
        "latest_per_key": latest_per_key,
        "on_unreadable": "skip" if skip_unreadable else "raise",
    }
    sources = QuerySources(options, values, value_format is not Form.binary, data_dir, place, namespace)
    if serve is None:
        if sql is None or (certificate, key) != (None, None):
            raise Misused("give a statement of SQL, or --serve HOST:PORT to take statements of others")
        _print_rows(sql, connection, sources, _form(output_format, file), file)
        return
    if sql is not None or file is not None or output_format is not None or data_dir is not None:
        raise Misused("--serve takes statements of others: leave out SQL, --output, --file and --data-dir")
    from .flight.server import ServerOptions, serve_queries

    limits = JobLimits(query_memory << 20, query_timeout)
    serve_queries(connection, sources, ServerOptions(serve, certificate, key, most_queries, limits, anonymous))


def _print_rows(sql: str, connection: Connection, sources: QuerySources, form: ResultFormat, file: Path | None) -> None:
    opened: list[OpenSources] = []
    with explained(lambda: opened[0].failure if opened else None), duckdb.connect() as database:
        database.execute("set TimeZone = 'UTC'")
        names = _tables(database, sql)
        check_topics(names)
        opened.append(sources.opened(connection))
        datasets = {name: opened[0].table(name) for name in names}
        check_fields(sql, datasets)
        for name, dataset in datasets.items():
            database.register(name, dataset)
        write_result(database, sql, form, file)
        opened[0].warn()


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
