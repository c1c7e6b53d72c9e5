"""The rows of a query: a table for people, or a file of one of DuckDB's formats."""

from __future__ import annotations

import contextlib
import sys
from enum import StrEnum
from pathlib import Path

import duckdb
import pyarrow as pa

from ..cli.messages import warn
from ..cli.output import Output, Table
from .arrow_reader import arrow_reader
from .standard_output import standard_output
from .statement import select_of

#: Rows of a table for people; --output csv, json and parquet have no limit.
MOST_TABLE_ROWS = 10_000
#: A cell of a result.
Scalar = str | int | float | bool | None


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


def write_result(database: duckdb.DuckDBPyConnection, sql: str, form: ResultFormat, file: Path | None) -> None:
    if form is not ResultFormat.table:
        select = select_of(sql)
        sys.stdout.flush()
        with contextlib.nullcontext(str(file)) if file is not None else standard_output() as target:
            quoted = target.replace("'", "''")
            database.execute(f"copy (\n{select}\n) to '{quoted}' ({_COPY[form]})")
        return
    rows: list[list[Scalar]] = []
    # Closed also after an error: a reader that the interpreter's end finds open is a fatal error of Python.
    with arrow_reader(database.sql(sql), MOST_TABLE_ROWS + 1) as result:
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
