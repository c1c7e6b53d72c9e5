"""`odradek query "select ... from TOPIC"`: SQL over topics, by DuckDB."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import duckdb
import typer

from ..cli.client.connection import Connection
from ..cli.client.errors import CommandError, Misused
from ..cli.client.options import client_command, new_app
from ..cli.client.properties import is_of_store
from ..cli.options import FAILED, warn
from ..cli.output import Output, Table
from ..cli.records.record_options import Isolation, MessageName, SchemaRegistry, ValueSchemaFile
from . import errors
from .dataset import ScanDataset, UndecodableDataset
from .errors import ScanError, Unread
from .scan import Scan, scan, with_values
from .values import UNDECODABLE, ValueSchema

app = new_app("Query topics with SQL.")

#: Rows of a table for people; --output csv, json and parquet have no limit.
MOST_TABLE_ROWS = 10_000
_SUFFIX = ".undecodable"


class Form(StrEnum):
    text = "text"
    binary = "binary"
    json = "json"
    avro = "avro"
    protobuf = "protobuf"


class ResultFormat(StrEnum):
    table = "table"
    csv = "csv"
    json = "json"
    jsonl = "jsonl"
    parquet = "parquet"


_COPY = {
    ResultFormat.csv: "format csv, header",
    ResultFormat.json: "format json, array true",
    ResultFormat.jsonl: "format json",
    ResultFormat.parquet: "format parquet",
}
_BY_NAME = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".parquet": "parquet"}


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
) -> None:
    """Query topics with SQL: `odradek query "select key, count(*) from orders group by key"`."""
    form = _form(output_format, file)
    values = None
    if value_format not in (Form.text, Form.binary):
        values = ValueSchema(value_format, value_schema, schema_registry, message)
    options = {
        "isolation_level": isolation_level.value,
        "latest_per_key": latest_per_key,
        "on_unreadable": "skip" if skip_unreadable else "raise",
    }
    with _explained():
        database = duckdb.connect()
        database.execute("set TimeZone = 'UTC'")
        tables = _tables(database, sql)
        scans = _Scans(connection, data_dir, options, value_format is not Form.binary, values)
        for name in tables:
            database.register(name, scans.table(name))
        _write(database, sql, form, file)
        scans.warn()


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ScanError as error:
        raise CommandError(str(error), getattr(error, "status", FAILED)) from None
    except duckdb.Error as error:
        # DuckDB wraps what a scan raises in words of its own, with the traceback.
        text, _, raised = str(error).rpartition(f"{errors.__name__}.")
        name, _, words = raised.partition(": ")
        kind = getattr(errors, name, None) if text else None
        if kind is None:
            raise CommandError(str(error)) from None
        raise CommandError(words, getattr(kind, "status", FAILED)) from None


def _form(output_format: ResultFormat | None, file: Path | None) -> ResultFormat:
    form = output_format or ResultFormat(_BY_NAME.get(file.suffix if file else "", "table"))
    if form is ResultFormat.table and file is not None:
        raise Misused("a table can be written to standard output only: leave out --file, or choose another --output")
    if form is ResultFormat.parquet and file is None and sys.stdout.isatty():
        raise Misused("Parquet cannot be printed on a terminal: give --file NAME.parquet")
    return form


def _tables(database: Any, sql: str) -> list[str]:
    """The names of tables in a query. Raises Misused for anything but one SELECT."""
    try:
        statements = database.extract_statements(sql)
    except duckdb.Error as error:
        raise Misused(str(error)) from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise Misused("a query is one SELECT statement")
    names = database.get_table_names(sql)
    return sorted(name for name in names)


class _Scans:
    """The scans of a query, by the names of their tables."""

    def __init__(
        self,
        connection: Connection,
        data_dir: Path | None,
        options: dict[str, Any],
        as_text: bool,
        values: ValueSchema | None,
    ) -> None:
        self._connection = connection
        self._data_dir = data_dir
        self._options = options
        self._as_text = as_text
        self._values = values
        self._unread: dict[Unread, None] = {}
        self._left_out: dict[str, int] = {}

    def table(self, name: str) -> Any:
        """The dataset of a topic, or of its records that do not decode: TOPIC.undecodable."""
        if name.endswith(_SUFFIX) and self._values is not None:
            return UndecodableDataset(self._scan(name.removesuffix(_SUFFIX)), UNDECODABLE)
        return ScanDataset(self._scan(name))

    def _scan(self, topic: str) -> Scan:
        if self._data_dir is not None:
            properties = self._connection.properties
            store = {name: value for name, value in properties.items() if is_of_store(name, properties)}
            made = scan(self._data_dir / topic, client=store, **self._options)
        else:
            made = scan(topic, client=self._connection.properties, **self._options)
        if self._values is not None:
            made = with_values(made, self._values)
        if self._as_text:
            made = made.as_text(["key"] if self._values is not None else ["key", "value"])
        made.on_end = self._note
        return made

    def _note(self, made: Scan) -> None:
        self._unread |= dict.fromkeys(made.unread)
        self._left_out[made.plan.topic] = max(self._left_out.get(made.plan.topic, 0), made.undecodable.num_rows)

    def warn(self) -> None:
        for one in self._unread:
            warn(str(one))
        for topic, count in self._left_out.items():
            if count:
                warn(
                    f'{count} records of {topic} do not decode and were left out: query "{topic}{_SUFFIX}" for the reasons'
                )


def _write(database: Any, sql: str, form: ResultFormat, file: Path | None) -> None:
    if form is not ResultFormat.table:
        target = str(file) if file is not None else "/dev/stdout"
        sys.stdout.flush()
        quoted = target.replace("'", "''")
        database.execute(f"copy ({sql.strip().rstrip(';')}) to '{quoted}' ({_COPY[form]})")
        return
    result = database.execute(sql).to_arrow_reader(MOST_TABLE_ROWS + 1)
    rows: list[list[Any]] = []
    for batch in result:
        rows += [[_cell(cell) for cell in row] for row in zip(*(one.to_pylist() for one in batch.columns))]
        if len(rows) > MOST_TABLE_ROWS:
            break
    Output("table").show([], Table("", result.schema.names, rows[:MOST_TABLE_ROWS]))
    if len(rows) > MOST_TABLE_ROWS:
        warn(f"only the first {MOST_TABLE_ROWS} rows are shown; --output csv has all of them")


def _cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
