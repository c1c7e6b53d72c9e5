"""Rows that Spark gives to a task of the sink, as batches of Arrow: 4.1 and later give such batches, 4.0 gives rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ..columns.arrow_kinds import is_moment

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
    kind = pa.struct(list(schema))
    plain = [row.asDict(recursive=True) for row in rows]
    if _has_moments(kind):
        plain = [_with_zones(row, kind) for row in plain]
    return pa.RecordBatch.from_pylist(plain, schema)


def _has_moments(kind: pa.DataType) -> bool:
    """Returns whether a type has timestamps with a zone, at any level."""
    return is_moment(kind) or any(_has_moments(kind.field(at).type) for at in range(kind.num_fields))


def _with_zones(value: object, kind: pa.DataType) -> object:
    """A value whose timestamps have their zone: a row has the local time of this process without it, which Arrow would take
    for UTC.
    """
    if value is None or not _has_moments(kind):
        return value
    if isinstance(value, datetime):
        return value.astimezone()
    if isinstance(value, list):
        return [_with_zones(one, kind.value_type) for one in value]
    assert isinstance(value, dict), value
    if pa.types.is_struct(kind):
        return {field.name: _with_zones(value[field.name], field.type) for field in kind}
    return {_with_zones(key, kind.key_type): _with_zones(one, kind.item_type) for key, one in value.items()}
