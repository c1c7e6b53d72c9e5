"""Tasks that read rows of a table as of one commit. They are plain data: any process that has the files may run them.

A task of Iceberg has files of a snapshot, which stay until it expires. A task of Parquet has offsets: an archiver may merge
files between the plan and the task, and a merged file has rows of several tasks. So each task reads, of the files that there
are, the rows of its offsets.
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
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as StoredTable
from pyiceberg.table.metadata import TableMetadata

from ..columns.dataset import possible
from .parquet import ParquetSource
from .store import ArchiveError, Covered, FileRange

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


def chosen(filter: pc.Expression | None, schema: pa.Schema, parts: Sequence[StoredPart]) -> Sequence[StoredPart]:
    """The files that may have a row which passes a filter of a schema."""
    if filter is None:
        return parts
    kept = possible([one.guarantee() for one in parts], filter, schema)
    return [one for number, one in enumerate(parts) if number in kept]


class StoredTask(Protocol):
    """Some rows of a table, or of the log behind it."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows. Raises ArchiveError where they are gone."""


@dataclass(frozen=True)
class IcebergTask:
    """Files of a snapshot, with some columns in their order."""

    name: str
    metadata: TableMetadata
    io: FileIO
    columns: tuple[str, ...]
    files: tuple[FileScanTask, ...]

    @classmethod
    def of(cls, name: str, table: StoredTable, columns: Sequence[str], files: Sequence[FileScanTask]) -> IcebergTask:
        """A task without the history of the table, which may be long."""
        metadata = table.metadata.model_copy(
            update={
                "snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}, "current_snapshot_id": None,
                "statistics": [], "partition_statistics": [],
            }
        )  # fmt: skip
        return cls(name, metadata, table.io, tuple(columns), tuple(files))

    def batches(self) -> Iterator[pa.RecordBatch]:
        # A projection of no columns loses the number of rows.
        schema = self.metadata.schema().select(*(self.columns or ("offset",)))
        scan = ArrowScan(self.metadata, self.io, schema, AlwaysTrue())
        for file in self.files:
            # One file a call: the library reads all files of a call into memory.
            try:
                for batch in scan.to_record_batches([file]):
                    yield batch.select(list(self.columns))
            except FileNotFoundError:
                raise ArchiveError(
                    f"table {self.name}: the snapshot that this relation reads has expired: make the relation again"
                ) from None


@dataclass(frozen=True)
class ParquetTask:
    """Offsets of a folder's table, with some columns in their order.

    `ranges`: partition -> (first offset, offset after the last one). `covered`: what the manifest must cover. `choose`: of
    the files with such offsets, those to read.
    """

    folder: Path
    has_dead_letters: bool
    covered: Covered
    schema: pa.Schema
    columns: tuple[str, ...]
    ranges: Mapping[int, tuple[int, int]]
    choose: Choose

    def batches(self) -> Iterator[pa.RecordBatch]:
        within = _within(self.ranges)
        with contextlib.ExitStack() as stack:
            for file in self._opened(stack):
                fragment = ds.ParquetFileFormat().make_fragment(file)
                yield from fragment.to_batches(schema=self.schema, columns=list(self.columns), filter=within)

    def _opened(self, stack: contextlib.ExitStack) -> list[IO[bytes]]:
        """The files, all open: what a merge deletes from now on stays readable."""
        for _ in range(_MOST_LOOKS):
            source = ParquetSource(self.folder, dead_letters=self.has_dead_letters)
            if self.covered.has_more_than(source.covered):
                break
            parts = self.choose([StoredPart(one) for one in source.ranges() if self._may_have(one)])
            with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as opened:
                files = [opened.enter_context(source.open(one.range)) for one in parts]
                stack.push(opened.pop_all())
                return files
        raise ArchiveError(f"{self.folder}: files of the relation are gone: make the relation again")

    def _may_have(self, file: FileRange) -> bool:
        (first, last), (low, high) = file.partitions, file.offsets
        return any(
            first <= partition <= last and low < end and high >= start
            for partition, (start, end) in self.ranges.items()
        )


def _within(ranges: Mapping[int, tuple[int, int]]) -> pc.Expression:
    """A condition for rows with the offsets of their partition."""
    partition, offset = ds.field("partition"), ds.field("offset")
    found = pc.scalar(False)
    for number, (start, end) in ranges.items():
        found |= (partition == pa.scalar(number, pa.int32())) & (offset >= start) & (offset < end)
    return found
