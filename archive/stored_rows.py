"""The rows of a table as of one commit: of Iceberg those of a snapshot, of Parquet those that a manifest covers.

What is committed later is left out, and what is merged meanwhile stays readable: an Iceberg snapshot keeps its files until
it expires, and the files of a manifest are opened before the first row of a reading is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as StoredTable

from ..admin.table_owner import Owner
from .data_files import limits_of, range_of
from .iceberg import arrow_schema, covered_of, owner_of
from .keyed import Keyed, keyed_of
from .keyed_records import record_schema
from .parquet import ParquetSource
from .store import Covered, NoSuchTable
from .stored_tasks import Choose, IcebergTask, ParquetTask, StoredPart, StoredTask


class StoredRows(Protocol):
    """Rows that stay the same while the table grows. `covered`: None before the first commit. `keyed`: of a table with a row
    for each key. `records`: the columns of the records that become its rows.
    """

    name: str
    owner: Owner
    covered: Covered | None
    schema: pa.Schema
    keyed: Keyed | None
    records: pa.Schema

    def batches(self, choose: Choose, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of the chosen files, with these columns in this order. Raises ArchiveError for rows that are gone."""

    def tasks(self, choose: Choose, columns: Sequence[str], task_bytes: int) -> Sequence[StoredTask]:
        """The same rows as tasks, each of about so many bytes of files."""


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
        self.covered: Covered | None = covered_of(self._table)
        self.schema: pa.Schema = arrow_schema(self._table)
        self.keyed: Keyed | None = keyed_of(self._table.properties)
        self.records: pa.Schema = self.schema
        if self.keyed is not None:
            self.records = record_schema(self.schema, self.keyed, self._table.properties)
        has_rows = self._table.current_snapshot() is not None
        tasks = self._table.scan().plan_files() if has_rows else ()
        self._tasks: dict[str, FileScanTask] = {one.file.file_path: one for one in tasks}
        self._parts = [
            StoredPart(range_of(self._table, one.file), limits_of(self._table, one.file, "timestamp"))
            for one in self._tasks.values()
        ]

    @property
    def table(self) -> StoredTable:
        """The table as it was when this was made."""
        return self._table

    @property
    def files(self) -> list[FileScanTask]:
        return list(self._tasks.values())

    def batches(self, choose: Choose, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._task(columns, self._chosen(choose)).batches()

    def tasks(self, choose: Choose, columns: Sequence[str], task_bytes: int) -> Sequence[StoredTask]:
        groups: list[list[FileScanTask]] = []
        filled = task_bytes
        for one in self._chosen(choose):
            size = one.file.file_size_in_bytes
            if filled + size > task_bytes:
                groups.append([])
                filled = 0
            groups[-1].append(one)
            filled += size
        return [self._task(columns, one) for one in groups]

    def _chosen(self, choose: Choose) -> list[FileScanTask]:
        return [self._tasks[part.range.path] for part in choose(self._parts)]

    def _task(self, columns: Sequence[str], files: Sequence[FileScanTask]) -> IcebergTask:
        return IcebergTask.of(self.name, self._table, columns, files)


class ParquetRows:
    """The rows that the manifest of a folder covers when this is made (StoredRows)."""

    def __init__(self, folder: Path, *, dead_letters: bool = False) -> None:
        """Raises NoSuchTable where the folder has no manifest."""
        self._folder, self._has_dead_letters = folder.absolute(), dead_letters
        source = ParquetSource(folder, dead_letters=dead_letters)
        self.name: str = source.name
        self.owner: Owner = source.owner
        self.covered: Covered | None = source.covered
        self._offsets: dict[int, int] = source.covered.offsets
        self.schema: pa.Schema = source.schema
        self.keyed: Keyed | None = None
        self.records: pa.Schema = source.schema
        self._files = [(StoredPart(at), file.bytes) for at, file in zip(source.ranges(), source.files, strict=True)]

    def batches(self, choose: Choose, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        ranges = {partition: (0, end) for partition, end in self._offsets.items()}
        return self._task(choose, columns, ranges).batches()

    def tasks(self, choose: Choose, columns: Sequence[str], task_bytes: int) -> Sequence[StoredTask]:
        left = choose([one for one, _ in self._files])
        paths = {one.range.path for one in left}
        count = -(-sum(size for one, size in self._files if one.range.path in paths) // task_bytes)
        ranges = self._ranges(left)
        made = [
            {
                partition: (_cut(*pair, number, count), _cut(*pair, number + 1, count))
                for partition, pair in ranges.items()
            }
            for number in range(count)
        ]
        return [self._task(choose, columns, one) for one in made]

    def _ranges(self, parts: Sequence[StoredPart]) -> dict[int, tuple[int, int]]:
        """Partition -> the offsets that the files may have of it."""
        found: dict[int, tuple[int, int]] = {}
        for partition, end in self._offsets.items():
            places = [one.range for one in parts if one.range.reaches(partition, 0)]
            if places:
                first, last = min(one.offsets[0] for one in places), max(one.offsets[1] for one in places)
                found[partition] = first, max(min(last + 1, end), first)
        return found

    def _task(self, choose: Choose, columns: Sequence[str], ranges: dict[int, tuple[int, int]]) -> ParquetTask:
        assert self.covered is not None
        return ParquetTask(
            self._folder, self._has_dead_letters, self.covered, self.schema, tuple(columns), ranges, choose
        )


def _cut(first: int, end: int, number: int, count: int) -> int:
    """The first offset of a task, of so many tasks with equal numbers of offsets."""
    return first + (end - first) * number // count
