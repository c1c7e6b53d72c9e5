"""Data files of Iceberg tables: rows as files of their partitions, files as rows, and rows in place of files.

No commit has a file that is written here until a table's commit names it.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, pyarrow_to_schema, write_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, WriteTask
from pyiceberg.table import Table as StoredTable
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform

from . import null_lists
from .store import FileRange, PartitionBy
from .table_partitions import rows_by_partition

null_lists.install()

#: PyIceberg's repetitions of a commit on top of other commits, which are the archiver's to decide.
RETRIES = "commit.retry.num-retries"

TRANSFORMS = {
    PartitionBy.hour: HourTransform(), PartitionBy.day: DayTransform(), PartitionBy.month: MonthTransform(),
}  # fmt: skip


def write_tasks(table: StoredTable, rows: pa.Table, write_id: uuid.UUID, numbers: Iterator[int]) -> Iterator[WriteTask]:
    """The files to write for rows: one for each partition of the table."""
    schema = pyarrow_to_schema(rows.schema, name_mapping=table.schema().name_mapping)
    spec = table.spec()
    parts = rows_by_partition(table.schema(), spec, rows) if spec.fields else ((None, rows),)
    for key, part in parts:
        yield WriteTask(
            write_uuid=write_id, task_id=next(numbers), schema=schema, record_batches=part.combine_chunks().to_batches(),
            partition_key=key,
        )  # fmt: skip


class FileWriter:
    """Writes files of a table and of its dead-letter records, as these are now. Plain data: other processes may have it.

    No commit has the files. Names have an id of the writer, drawn in each process.
    """

    def __init__(self, table: StoredTable, dead_letter_table: StoredTable | None) -> None:
        self._table = _without_catalog(table)
        self._dead_letter_table = None if dead_letter_table is None else _without_catalog(dead_letter_table)
        self._begin()

    def _begin(self) -> None:
        self._id, self._numbers = uuid.uuid4(), itertools.count()

    def __getstate__(self) -> object:
        return self._table, self._dead_letter_table

    def __setstate__(self, state: Any) -> None:
        self._table, self._dead_letter_table = state
        self._begin()

    @property
    def has_dead_letter_table(self) -> bool:
        return self._dead_letter_table is not None

    def rows(self, rows: pa.Table) -> list[DataFile]:
        return self._written(self._table, rows)

    def dead_letter_records(self, records: pa.Table) -> list[DataFile]:
        return self._written(self._dead_letter_table, records)

    def _written(self, table: StoredTable | None, rows: pa.Table) -> list[DataFile]:
        if not rows.num_rows:
            return []
        assert table is not None
        return list(write_file(table.io, table.metadata, write_tasks(table, rows, self._id, self._numbers)))

    def delete(self, files: Iterable[DataFile]) -> None:
        delete_files(self._table.io, files)


def _without_catalog(table: StoredTable) -> StoredTable:
    """The table as it is now. A catalog has connections, which no other process can have."""
    return StoredTable(table.name(), table.metadata, table.metadata_location, table.io, NoopCatalog("files"))


def delete_files(io: FileIO, files: Iterable[DataFile]) -> None:
    """Deletes files that are in no commit."""
    for one in files:
        with suppress(OSError):
            io.delete(one.file_path)


def rows_of_files(table: StoredTable, files: Sequence[FileScanTask]) -> pa.Table:
    return ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(files)


def replace_files(
    table: StoredTable, files: Sequence[FileScanTask], rows: pa.Table, properties: Mapping[str, str]
) -> None:
    """Commits rows in place of files. `properties`: of the snapshot, and of the table.

    Where another program has changed the table, PyIceberg raises its error of a failed commit.
    """
    tasks = write_tasks(table, rows, uuid.uuid4(), itertools.count()) if rows.num_rows else iter(())
    added = list(write_file(table.io, table.metadata, tasks))
    commit_replacement(table, [task.file for task in files], added, properties)


def commit_replacement(
    table: StoredTable, removed: Sequence[DataFile], added: Sequence[DataFile], properties: Mapping[str, str]
) -> None:
    """Commits files in place of others. `properties`: of the snapshot, and of the table.

    Where another program has changed the table, PyIceberg raises its error of a failed commit.
    """
    table.metadata.properties[RETRIES] = "0"  # of this object: a repetition could replace files that are gone
    transaction = table.transaction()
    if properties:
        transaction.set_properties(dict(properties))
    with transaction.update_snapshot(snapshot_properties=dict(properties)).overwrite() as overwrite:
        for one in removed:
            overwrite.delete_data_file(one)
        for one in added:
            overwrite.append_data_file(one)
    transaction.commit_transaction()


def range_of(table: StoredTable, file: DataFile) -> FileRange:
    """The partitions and offsets of a file, by the bounds in its manifest."""
    low, high = (
        [_number(limit[table.schema().find_field(name).field_id]) for name in ("partition", "offset")]
        for limit in (file.lower_bounds, file.upper_bounds)
    )
    return FileRange(file.file_path, (low[0], high[0]), (low[1], high[1]), file.record_count)


def limits_of(table: StoredTable, file: DataFile, column: str) -> tuple[int, int] | None:
    """The least and the greatest value of a column of integers or times in a file; None where its manifest has none."""
    number = table.schema().find_field(column).field_id
    low, high = file.lower_bounds.get(number), file.upper_bounds.get(number)
    return None if low is None or high is None else (_number(low), _number(high))


def _number(bound: bytes) -> int:
    """A bound of an int or a long: Iceberg's single-value serialization."""
    return int.from_bytes(bound, "little", signed=True)
