"""`odradek query "select ... from TOPIC"`: SQL over topics, by DuckDB."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import duckdb
import pyarrow as pa
import typer

from ..admin.connection import Connection
from ..cli.client.options import client_command, new_app
from ..cli.messages import warn
from ..cli.output import Output, Table
from ..cli.records.record_options import Isolation, MessageName, SchemaRegistry, ValueSchemaFile
from ..client.error_kinds import ErrorKind
from ..client.properties import is_of_store
from ..client.user_errors import Misused, UserError
from ..client.wording import counted
from .dataset import ScanDataset, UndecodableDataset
from .errors import ScanError, Unread
from .scan import Scan, scan, with_values
from .values import UNDECODABLE, ValueSchema

app = new_app("Query topics with SQL.")

#: Rows of a table for people; --output csv, json and parquet have no limit.
MOST_TABLE_ROWS = 10_000
#: A cell of a result.
Scalar = str | int | float | bool | None
_SUFFIX = ".undecodable"
#: Limit of the text of an inferred type.
_SHOWN_CHARACTERS = 300
#: Timestamps that DuckDB has, in ms: its own are of 64 bits and in microseconds.
_FIRST_MS, _LAST_MS = -9_223_372_022_400_000, 9_223_372_036_854_774


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
        values = ValueSchema.of_options(connection, value_format, value_schema, schema_registry, message)
    options = {
        "isolation_level": isolation_level.value,
        "latest_per_key": latest_per_key,
        "on_unreadable": "skip" if skip_unreadable else "raise",
    }
    scans = _Scans(connection, data_dir, options, value_format is not Form.binary, values)
    with _explained(scans), duckdb.connect() as database:
        database.execute("set TimeZone = 'UTC'")
        for name in _tables(database, sql):
            database.register(name, scans.table(name))
        _write(database, sql, form, file)
        scans.warn()


@contextmanager
def _explained(scans: _Scans) -> Iterator[None]:
    """Raises what a user meets as UserError: DuckDB has words of its own, with a traceback, for what a scan raises."""
    try:
        yield
    except (UserError, Misused):
        raise
    except Exception as error:
        failure = scans.failure or error
        if isinstance(failure, ScanError | UserError):
            raise UserError(str(failure), getattr(failure, "kind", ErrorKind.FAILED)) from None
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
        self._undated: dict[str, tuple[int, int]] = {}
        self._inferred: dict[str, str] = {}
        #: The first error that a reading has raised.
        self.failure: Exception | None = None

    def table(self, name: str) -> ScanDataset | UndecodableDataset:
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
        made = made.with_dates(_FIRST_MS, _LAST_MS)
        made.on_end, made.on_error = self._note, self._failed
        return made

    def _failed(self, error: Exception) -> None:
        self.failure = self.failure or error

    def _note(self, scanned: Scan) -> None:
        self._unread |= dict.fromkeys(scanned.unread)
        if scanned.inference is not None:
            self._inferred[scanned.plan.topic] = str(scanned.inference)
        if scanned.undated is not None:
            self._undated[scanned.plan.topic] = scanned.undated
        self._left_out[scanned.plan.topic] = max(
            self._left_out.get(scanned.plan.topic, 0), scanned.undecodable.num_rows
        )

    def warn(self) -> None:
        for one in self._unread:
            warn(str(one))
        for topic, words in self._inferred.items():
            shown = words if len(words) <= _SHOWN_CHARACTERS else f"{words[:_SHOWN_CHARACTERS]}..."
            warn(f"{topic}: value is {shown}; --value-schema FILE fixes it")
        for topic, (example, number) in self._undated.items():
            warn(
                f"{number} timestamps of {topic} are beyond the years of SQL, such as {example} ms, and are null; "
                f"`odradek consume {topic} --output jsonl` has the numbers"
            )
        for topic, count in self._left_out.items():
            if count:
                warn(
                    f"{counted(count, 'undecodable value')} of {topic} became null: the column value_error, and the table "
                    f'"{topic}{_SUFFIX}", have the reasons'
                )


def _write(database: duckdb.DuckDBPyConnection, sql: str, form: ResultFormat, file: Path | None) -> None:
    if form is not ResultFormat.table:
        target = str(file) if file is not None else "/dev/stdout"
        sys.stdout.flush()
        quoted = target.replace("'", "''")
        database.execute(f"copy ({sql.strip().rstrip(';')}) to '{quoted}' ({_COPY[form]})")
        return
    rows: list[list[Scalar]] = []
    # Closed also after an error: a reader that the interpreter's end finds open is a fatal error of Python.
    relation = database.sql(sql)
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # the name in DuckDB 1.4
    with reader(MOST_TABLE_ROWS + 1) as result:
        names = result.schema.names
        for batch in result:
            rows += [[_cell(cell) for cell in row] for row in zip(*(_contents(one) for one in batch.columns))]
            if len(rows) > MOST_TABLE_ROWS:
                break
    Output("table").show([], Table("", names, rows[:MOST_TABLE_ROWS]))
    if len(rows) > MOST_TABLE_ROWS:
        warn(f"only the first {MOST_TABLE_ROWS} rows are shown; --output csv has all of them")


def _contents(column: pa.Array) -> list[object]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):  # Python has the years 1 to 9999
        return [_content(one) for one in column]


def _content(scalar: pa.Scalar) -> object:
    """A value; times without a date in Python as numbers."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        if isinstance(scalar, pa.StructScalar):
            return {name: _content(one) for name, one in scalar.items()}
        if isinstance(scalar, pa.ListScalar):
            return [_content(one) for one in scalar]
        unit = getattr(scalar.type, "unit", "")
        return f"{getattr(scalar, 'value', None)} {unit}".strip()


def _cell(value: object) -> Scalar:
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
