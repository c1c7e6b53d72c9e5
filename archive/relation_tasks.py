"""Tasks that read a relation side by side: rows of the table, or of the log, in the columns of the relation.

They are plain data, which other processes and machines run where they have the files and reach the brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ..columns.dataset_scanner import DatasetScanner
from ..columns.scan import text_of
from .conforming import conformed
from .stored_tasks import StoredTask

#: Bytes of a task: some seconds of a core.
TASK_BYTES = 128 << 20


@dataclass(frozen=True)
class RelationTask:
    """Some rows of a relation: the columns `names`, in this order, of those that pass the filter.

    `needed`: these columns and those of the filter. `whole`: the types of all columns.
    """

    rows: StoredTask
    names: tuple[str, ...]
    needed: tuple[str, ...]
    whole: pa.Schema
    text_columns: tuple[str, ...] = ()
    filter: pc.Expression | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields batches of the rows. Raises ArchiveError, ScanError."""
        schema = pa.schema([self.whole.field(name) for name in self.needed])
        for name in self.text_columns:
            if name in self.needed:
                schema = schema.set(schema.get_field_index(name), pa.field(name, pa.string()))
        batches = (aligned(one, schema, self.whole, self.text_columns) for one in self.rows.batches())
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        yield from DatasetScanner(reader, self.names, self.filter).to_batches()


def aligned(
    batch: pa.RecordBatch, schema: pa.Schema, whole: pa.Schema, text_columns: Sequence[str] = ()
) -> pa.RecordBatch:
    """A batch with the columns of a schema: null where it lacks one, and of the types of `whole`, then text where wanted."""
    columns = []
    for field in schema:
        kind = whole.field(field.name).type
        number = batch.schema.get_field_index(field.name)
        column = pa.nulls(batch.num_rows, kind) if number < 0 else batch.column(number)
        if column.type != kind:
            fitted = conformed(column, kind)
            assert not fitted.bad, "a column of a table grows"
            column = fitted.values
        columns.append(text_of(column) if field.name in text_columns else column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
