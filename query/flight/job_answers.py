"""The answer of a job: messages of Arrow's IPC format, of which each is one batch of a limited size.

Clients of gRPC refuse messages of more than some megabytes, so batches are cut, and small ones are joined.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from ...admin.connection import Connection
from ...client.error_kinds import ErrorKind
from ...client.user_errors import Misused, UserError
from ...client.wording import counted
from ...columns.cluster import Cluster
from ...columns.errors import ScanError
from ..arrow_reader import arrow_reader
from ..explained_errors import explained, words_of
from ..locked_database import lock, locked_database
from ..sources import OpenSources
from ..sql_names import check_fields, check_topics
from ..statement import CATALOG, SCHEMA, select_of, topics_of
from .jobs import MOST_FRAME_BYTES, Job, Rows, Topics

TABLES = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        pa.field("table_name", pa.string(), nullable=False),
        pa.field("table_type", pa.string(), nullable=False),
    ]
)
TABLE_SCHEMA = pa.field("table_schema", pa.binary(), nullable=False)
TABLE_TYPE = "TABLE"
#: In the metadata of a schema: the number of parameters of a statement that has some.
PARAMETERS = b"odradek.parameters"
#: Rows that are asked of DuckDB at once: of values of 1 MiB, that many are in memory.
_ROWS = 512
#: A message has at least so many bytes, where there are more rows, and at most twice as many, where it has several.
_MESSAGE_BYTES = 1 << 20
#: Topics with columns in one list: each is opened for it.
_MOST_WITH_COLUMNS = 1_000
#: DuckDB's part of a job's memory; the others are batches of Arrow.
_DATABASE_PART = 0.6


def answer(job: Job) -> Iterator[pa.Buffer]:
    """Raises UserError."""
    task = job.task
    connection = Connection(job.properties, job.timeout_s)
    opened: list[OpenSources] = []
    with explained(lambda: opened[0].failure if opened else None):
        opened.append(job.sources.opened(connection))
        if isinstance(task, Topics):
            table = _topics(task, job, opened[0])
            yield from _messages(table.schema, iter(table.to_batches()))
        else:
            yield from _rows(task, job, opened[0])


def _rows(task: Rows, job: Job, sources: OpenSources) -> Iterator[pa.Buffer]:
    with locked_database(int(job.limits.memory_bytes * _DATABASE_PART)) as database:
        names = topics_of(database, task.sql)
        check_topics(names)
        datasets = {name: sources.table(name) for name in names}
        check_fields(task.sql, datasets)
        lock(database, datasets)
        try:
            yield from _messages(*_result(database, task))
        except duckdb.ProgrammingError as error:
            if sources.failure is not None:
                raise
            raise Misused(words_of(error)) from None  # such as a column that there is not
        except (duckdb.OutOfMemoryException, MemoryError):
            raise UserError(job.limits.memory_words) from None


def _result(database: duckdb.DuckDBPyConnection, task: Rows) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    values = _parameters(task.parameters)
    count = len(database.extract_statements(task.sql)[0].named_parameters)
    if not count and not values:
        relation = database.sql(task.sql)
        if task.only_schema:
            schema = arrow_reader(relation.limit(0), _ROWS).schema
            fields = [field.with_name(name) for field, name in zip(schema, relation.columns, strict=True)]
            return pa.schema(fields), iter(())  # a limit has other names for columns of one name
        result = arrow_reader(relation, _ROWS)
        return result.schema, iter(result)
    if not task.only_schema and len(values or ()) != count:
        raise Misused(f"the statement takes {counted(count, 'parameter')}, not {len(values or ())}")
    statement = select_of(task.sql)
    given: list[object] = values or [None] * count
    names = _names(database, statement, given) if task.only_schema else []
    if task.only_schema:
        statement = f"select * from (\n{statement}\n) limit 0"
    with warnings.catch_warnings(action="ignore"):  # a copy of the rows, where there are parameters
        result = arrow_reader(database.execute(statement, given), _ROWS)
    schema = result.schema
    if len(names) == len(schema):
        schema = pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
    return schema.with_metadata({PARAMETERS: b"%d" % count}), iter(result)


def _names(database: duckdb.DuckDBPyConnection, statement: str, values: list[object]) -> list[str]:
    """The names of a statement's columns: within another statement, columns of one name have other ones. None for a form of
    a statement that cannot be described.
    """
    try:
        return [str(row[0]) for row in database.execute(f"describe {statement}", values).fetchall()]
    except duckdb.ParserException:
        return []


def _parameters(stream: bytes) -> list[object] | None:
    """The values of a stream with one row. Raises Misused for any other."""
    if not stream:
        return None
    try:
        table = pa.ipc.open_stream(stream).read_all()
        table.validate(full=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise Misused(f"the parameters are no stream of Arrow: {error}") from None
    if table.num_rows != 1:
        raise Misused(f"a query takes one row of parameters, not {table.num_rows}")
    return [column[0].as_py() for column in table.columns]


def _topics(task: Topics, job: Job, sources: OpenSources) -> pa.Table:
    try:
        with Cluster(job.properties) as cluster:
            names = [one.name for one in cluster.described() if not one.is_internal]
    except ScanError as error:
        raise UserError(str(error), error.kind) from None
    names = sorted(name for name in names if is_like(name, task.pattern))
    columns = [[CATALOG] * len(names), [SCHEMA] * len(names), names, [TABLE_TYPE] * len(names)]
    table = pa.table(columns, schema=TABLES)
    if not task.with_columns:
        return table
    if len(names) > _MOST_WITH_COLUMNS:
        raise UserError(f"the columns of more than {_MOST_WITH_COLUMNS} topics are not listed: narrow the pattern")
    schemas = [_schema(sources, name) for name in names]
    return table.append_column(TABLE_SCHEMA, pa.array(schemas, pa.binary()))


def _schema(sources: OpenSources, topic: str) -> bytes:
    """The columns of a topic; none of one that the user may not read, or that cannot be read."""
    try:
        schema = sources.table(topic).schema
    except (ScanError, UserError) as error:
        if error.kind is ErrorKind.UNREACHABLE:
            raise
        schema = pa.schema([])
    return bytes(_plain(schema).serialize())


def is_like(name: str, pattern: str | None) -> bool:
    """Whether a name has a pattern of LIKE, with a backslash as its escape. None: any name."""
    if pattern is None:
        return True
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    forms = {"%": ".*", "_": "."}
    expression = "".join(forms.get(one) or re.escape(one[-1]) for one in parts)
    return re.fullmatch(expression, name, re.DOTALL) is not None


def _messages(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Buffer]:
    plain = _plain(schema)
    yield plain.serialize()
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _MESSAGE_BYTES:
            yield from _cut(waiting, plain)
            waiting, size = [], 0
    yield from _cut(waiting, plain)


def _cut(batches: list[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Buffer]:
    if not batches:
        return
    table = pa.Table.from_batches(batches).cast(schema).combine_chunks()
    for batch in table.to_batches():
        parts = min(batch.num_rows, batch.nbytes // _MESSAGE_BYTES) or 1
        step = -(-batch.num_rows // parts) or 1
        for first in range(0, batch.num_rows, step):
            message = batch.slice(first, step).serialize()
            if message.size > MOST_FRAME_BYTES:
                raise UserError(f"a row of more than {MOST_FRAME_BYTES >> 20} MiB cannot be sent")
            yield message


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with values in place of dictionaries, which have messages of their own."""
    fields = [
        pa.field(one.name, one.type.value_type, one.nullable) if pa.types.is_dictionary(one.type) else one
        for one in schema
    ]
    return pa.schema(fields, schema.metadata)
