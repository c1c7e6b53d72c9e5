"""A scanner whose batches are read by the thread that asks for them.

Arrow's own scanner of a reader runs the reader on threads of Arrow, and reads ahead. Such a thread may be in Python when the
program ends: the interpreter ends it there, and the process aborts, or waits for it without end. So here Arrow's threads
have batches only, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.dataset as ds


class DatasetScanner(ds.Scanner):  # type: ignore[misc]
    """The columns `names`, in this order, of the rows of `reader` that pass the filter. The reader is read once."""

    def __init__(
        self, reader: pa.RecordBatchReader, names: Sequence[str], filter: pa.compute.Expression | None
    ) -> None:
        self._reader = reader
        self._names = list(names)
        self._filter = filter

    @property
    def dataset_schema(self) -> pa.Schema:
        return self._reader.schema

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self._reader.schema.field(name) for name in self._names])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader:
            if self._filter is None:
                yield batch.select(self._names)
            else:
                yield from ds.InMemoryDataset(batch).to_table(self._names, filter=self._filter).to_batches()

    def scan_batches(self) -> Iterator[ds.TaggedRecordBatch]:
        """Yields each batch with a fragment that has only its rows."""
        for batch in self.to_batches():
            (fragment,) = ds.InMemoryDataset(batch).get_fragments()
            yield ds.TaggedRecordBatch(batch, fragment)

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches(self.to_batches(), self.projected_schema)

    def take(self, indices: pa.Array | Sequence[int]) -> pa.Table:
        return self.to_table().take(indices)

    def head(self, num_rows: int) -> pa.Table:
        batches, left = [], num_rows
        if left > 0:
            for batch in self.to_batches():
                batches.append(batch.slice(0, left))
                left -= batches[-1].num_rows
                if left <= 0:
                    break
        return pa.Table.from_batches(batches, self.projected_schema)

    def count_rows(self) -> int:
        return sum(batch.num_rows for batch in self.to_batches())
