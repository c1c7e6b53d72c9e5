"""The rows of a table as of one commit: of Iceberg those of a snapshot, of Parquet those that a manifest covers.

What is committed later is left out, and what is merged meanwhile stays readable: an Iceberg snapshot keeps its files until
it expires, and the files of a manifest are opened before the first row of a reading is given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as StoredTable

from ..admin.table_owner import Owner
from .data_files import limits_of, range_of
from .iceberg import arrow_schema, covered_of, owner_of
from .keyed import keyed_of
from .parquet import ParquetSource
from .store import ArchiveError, Covered, FileRange, NoSuchTable

#: A manifest whose files are merged while they are opened is read again so many times.
_MOST_LOOKS = 10


@dataclass(frozen=True)
class StoredPart:
    """A file: where its records lie, and between which timestamps, in µs and inclusive; None where that is not known."""

    range: FileRange
    timestamps: tuple[int, int] | None = None

    def guarantee(self) -> pc.Expression:
        """A condition that each row of the file passes."""
        partition, offset, timestamp = ds.field("partition"), ds.field("offset"), ds.field("timestamp")
        (first, last), (low, high) = self.range.partitions, self.range.offsets
        found = (partition >= pa.scalar(first, pa.int32())) & (partition <= pa.scalar(last, pa.int32()))
        found &= (offset >= low) & (offset <= high)
        if self.timestamps is not None:
            earliest, latest = (pa.scalar(one, pa.timestamp("us", tz="UTC")) for one in self.timestamps)
            found &= ((timestamp >= earliest) & (timestamp <= latest)) | timestamp.is_null()
        return found


#: Chooses the files of a reading from all of them.
Choose = Callable[[Sequence[StoredPart]], Sequence[StoredPart]]


class StoredRows(Protocol):
    """Rows that stay the same while the table grows. `covered`: None before the first commit."""

    name: str
    owner: Owner
    covered: Covered | None
    schema: pa.Schema

    def batches(self, choose: Choose, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of the chosen files, with these columns in this order. Raises ArchiveError for rows that are gone."""


class IcebergRows:
    """The rows of a snapshot: the newest one when this is made (StoredRows)."""

    def __init__(self, catalog: Catalog, identifier: tuple[str, ...]) -> None:
        """Raises NoSuchTable, and ForeignTable where it is no archive's."""
        self.name = ".".join(identifier)
        try:
            self._table: StoredTable = catalog.load_table(identifier)
        except NoSuchTableError:
            raise NoSuchTable(f"the catalog has no table {self.name}") from None
        self.owner: Owner = owner_of(self._table)
        if keyed_of(self._table.properties) is not None:
            raise ArchiveError(
                f"table {self.name} has a row for each key, and its log one for each record: read the table"
            )
        self.covered: Covered | None = covered_of(self._table)
        self.schema: pa.Schema = arrow_schema(self._table)
        has_rows = self._table.current_snapshot() is not None
        tasks = self._table.scan().plan_files() if has_rows else ()
        self._tasks: dict[str, FileScanTask] = {one.file.file_path: one for one in tasks}
        self._parts = [
            StoredPart(range_of(self._table, one.file), limits_of(self._table, one.file, "timestamp"))
            for one in self._tasks.values()
        ]

    def batches(self, choose: Choose, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # A projection of no columns loses the number of rows.
        schema = self._table.schema().select(*(columns or ["offset"]))
        scan = ArrowScan(self._table.metadata, self._table.io, schema, AlwaysTrue())
        for part in choose(self._parts):
            # One file a call: the library reads all files of a call into memory.
            try:
                for batch in scan.to_record_batches([self._tasks[part.range.path]]):
                    yield batch.select(list(columns))
            except FileNotFoundError:
                raise ArchiveError(
                    f"table {self.name}: the snapshot that this relation reads has expired: make the relation again"
                ) from None


class ParquetRows:
    """The rows that the manifest of a folder covers when this is made (StoredRows)."""

    def __init__(self, folder: Path, *, dead_letters: bool = False) -> None:
        """Raises NoSuchTable where the folder has no manifest."""
        self._folder, self._has_dead_letters = folder, dead_letters
        source = self._source()
        self.name: str = source.name
        self.owner: Owner = source.owner
        self.covered: Covered | None = source.covered
        self.schema: pa.Schema = source.schema

    def _source(self) -> ParquetSource:
        return ParquetSource(self._folder, dead_letters=self._has_dead_letters)

    def batches(self, choose: Choose, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        assert self.covered is not None
        within = _below(self.covered.offsets)
        with contextlib.ExitStack() as stack:
            for file in self._opened(stack, choose):
                fragment = ds.ParquetFileFormat().make_fragment(file)
                yield from fragment.to_batches(schema=self.schema, columns=list(columns), filter=within)

    def _opened(self, stack: contextlib.ExitStack, choose: Choose) -> list[IO[bytes]]:
        """The files, all open: what a merge deletes from now on stays readable."""
        for _ in range(_MOST_LOOKS):
            source = self._source()
            if self.covered is not None and self.covered.has_more_than(source.covered):
                break
            parts = choose([StoredPart(one) for one in source.ranges()])
            with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as opened:
                files = [opened.enter_context(source.open(one.range)) for one in parts]
                stack.push(opened.pop_all())
                return files
        raise ArchiveError(f"{self.name}: files of the relation are gone: make the relation again")


def _below(offsets: Mapping[int, int]) -> pc.Expression:
    """A condition for rows below the offset of their partition."""
    found = pc.scalar(False)
    for partition, offset in offsets.items():
        found |= (ds.field("partition") == pa.scalar(partition, pa.int32())) & (ds.field("offset") < offset)
    return found
