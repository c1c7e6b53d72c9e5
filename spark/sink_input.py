"""Rows that Spark gives to a task of the sink, as batches of Arrow: 4.1 and later give such batches, 4.0 gives rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ..sink.columns import TIMESTAMP

#: Rows of a batch of Arrow, where Spark gives rows.
ROWS = 10_000
Input: TypeAlias = pa.RecordBatch | Row


def batches_of(iterator: Iterable[Input], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Batches of Arrow, in the order of the rows."""
    kept: list[Row] = []
    arrow = None
    for one in iterator:
        if isinstance(one, pa.RecordBatch):
            yield one
            continue
        arrow = arrow or to_arrow_schema(schema)
        kept.append(one)
        if len(kept) == ROWS:
            yield _of_rows(kept, arrow)
            kept = []
    if kept:
        yield _of_rows(kept, arrow)


def _of_rows(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    plain = [row.asDict(recursive=True) for row in rows]
    if TIMESTAMP in schema.names and getattr(schema.field(TIMESTAMP).type, "tz", None):
        # A row has the local time of this process without its zone, which Arrow would take for UTC.
        for row in plain:
            if (time := row[TIMESTAMP]) is not None:
                row[TIMESTAMP] = time.astimezone()
    return pa.RecordBatch.from_pylist(plain, schema)
