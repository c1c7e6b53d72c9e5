"""Files of Iceberg tables: data files of new rows, and maintenance of those that are there.

- `write_tasks`, `FileWriter`: data files, rows by partition, as PyIceberg writes them.
- `Maintenance`: merging small files, expiring snapshots, deleting files that no snapshot has.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.fs
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO, pyarrow_to_schema, write_file
from pyiceberg.manifest import DataFile, ManifestEntryStatus
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.table import FileScanTask, WriteTask
from pyiceberg.table import Table as StoredTable
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform
from pyiceberg.types import TimestamptzType

from .errors import ArchiveError
from .store import TARGET_FILE_BYTES, PartitionBy, bounded_tables, groups_to_merge, partitioned

# ---- data files

TRANSFORMS = {
    PartitionBy.hour: HourTransform(), PartitionBy.day: DayTransform(), PartitionBy.month: MonthTransform(),
}  # fmt: skip


def write_tasks(table: StoredTable, rows: pa.Table, write_id: uuid.UUID, numbers: Iterator[int]) -> Iterator[WriteTask]:
    """The files to write for rows: one for each partition of the table."""
    schema = pyarrow_to_schema(rows.schema, name_mapping=table.schema().name_mapping)
    spec = table.spec()
    for start, part in partitioned(rows, unit_of(spec)):
        yield WriteTask(
            write_uuid=write_id, task_id=next(numbers), schema=schema, record_batches=part.combine_chunks().to_batches(),
            partition_key=_partition_key(table, spec, start),
        )  # fmt: skip


def unit_of(spec: PartitionSpec) -> PartitionBy:
    """The unit of a table's partitions. Raises ArchiveError for partitions of another kind."""
    if not spec.fields:
        return PartitionBy.none
    units = {type(transform): unit for unit, transform in TRANSFORMS.items()}
    unit = units.get(type(spec.fields[0].transform)) if len(spec.fields) == 1 else None
    if unit is None:
        raise ArchiveError(f"the table is not partitioned by hour, day or month of one column: {spec}")
    return unit


def _partition_key(table: StoredTable, spec: PartitionSpec, start: Any) -> PartitionKey | None:
    if not spec.fields:
        return None
    (field,) = spec.fields
    micros = None if start is None else int(pa.scalar(start, pa.timestamp("us", tz="UTC")).value)
    value = field.transform.transform(TimestamptzType())(micros)
    return PartitionKey([PartitionFieldValue(field=field, value=value)], spec, table.schema())


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

    def __getstate__(self) -> Any:
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


# ---- maintenance
#
# Every snapshot that is made here has the offsets of its parent, so the newest one always has them. PyIceberg's
# expiry removes snapshots from the metadata only; the files that no other snapshot has are deleted here.

#: PyIceberg's repetitions of a commit on top of other commits, which are the archiver's to decide.
RETRIES = "commit.retry.num-retries"
_DAY_S = 86_400
_FEWEST_MERGED = 2
#: Snapshots for readers that have begun: with fewer, a query could find its files gone.
_LEAST_SNAPSHOTS = 5
#: Expiry rewrites the metadata and reads manifests: not for each snapshot.
_MOST_EXPIRED_KEPT = 20


@dataclass
class Maintenance:
    """`snapshots_s`: age of snapshots that expire. `orphans_s`: age of files without a snapshot that are deleted at the
    start; another program may be about to commit younger ones.
    """

    target_file_bytes: int = TARGET_FILE_BYTES
    snapshots_s: float = 1800
    orphans_s: float = _DAY_S
    least_snapshots: int = _LEAST_SNAPSHOTS
    most_expired_kept: int = _MOST_EXPIRED_KEPT

    def run(self, table: StoredTable, properties: Mapping[str, str]) -> None:
        """Merges and expires. `properties`: of the snapshots that are made."""
        self.merge(table, properties)
        self.expire(table)

    # ---- small files

    def merge(self, table: StoredTable, properties: Mapping[str, str]) -> None:
        tasks = [
            task
            for task in table.scan().plan_files()
            if not task.delete_files and task.file.spec_id == table.spec().spec_id
        ]
        sized = ((repr(task.file.partition), task.file.file_size_in_bytes, task) for task in tasks)
        for group in groups_to_merge(sized, self.target_file_bytes):
            self._merge_group(table, group, properties)

    def _merge_group(self, table: StoredTable, group: Sequence[FileScanTask], properties: Mapping[str, str]) -> None:
        parts = bounded_tables(rows_of_files(table, [task]) for task in group)
        if len(parts) < _FEWEST_MERGED:
            return
        rows = pa.concat_tables(parts).sort_by([("partition", "ascending"), ("offset", "ascending")])
        replace_files(table, group[: len(parts)], rows, properties)

    # ---- snapshots

    def expire(self, table: StoredTable) -> None:
        expired = self._expired(table)
        if len(expired) <= self.most_expired_kept:
            return
        ids = {one.snapshot_id for one in expired}
        retained = [one for one in table.snapshots() if one.snapshot_id not in ids]
        unused = _unused_files(table, expired, retained)
        table.maintenance.expire_snapshots().by_ids(sorted(ids)).commit()
        for path in unused:
            with suppress(OSError):
                table.io.delete(path)

    def _expired(self, table: StoredTable) -> list[Snapshot]:
        """Old snapshots of the main branch that no tag or other branch reaches."""
        kept: set[int] = set()
        for name, ref in table.refs().items():
            ancestors = list(ancestors_of(table.snapshot_by_id(ref.snapshot_id), table.metadata))
            of_branch = ancestors[: self.least_snapshots] if name == "main" else ancestors
            kept |= {one.snapshot_id for one in of_branch}
        before_ms = (time.time() - self.snapshots_s) * 1000
        return [one for one in table.snapshots() if one.timestamp_ms < before_ms and one.snapshot_id not in kept]

    # ---- files of commits that never came

    def remove_orphans(self, table: StoredTable) -> None:
        """Deletes old files in the table's folders that no snapshot has, where the file system can list them."""
        io = table.io
        if not isinstance(io, PyArrowFileIO):
            return
        place = urlparse(table.location())
        system = io.fs_by_scheme(place.scheme or "file", place.netloc or None)
        root = f"{place.netloc}{place.path}"
        before_s = time.time() - self.orphans_s
        listing = system.get_file_info(pyarrow.fs.FileSelector(root, allow_not_found=True, recursive=True))
        old = [
            one.path for one in listing if one.is_file and one.mtime is not None and one.mtime.timestamp() < before_s
        ]
        if old:
            known = {_path_of(name) for name in _all_files(table)}
            for path in old:
                if path not in known:
                    with suppress(OSError):
                        system.delete_file(path)


def rows_of_files(table: StoredTable, files: Sequence[FileScanTask]) -> pa.Table:
    return ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(files)


def replace_files(
    table: StoredTable, files: Sequence[FileScanTask], rows: pa.Table, properties: Mapping[str, str]
) -> None:
    """Commits rows in place of files. `properties`: of the snapshot, and of the table.

    Where another program has changed the table, PyIceberg raises its error of a failed commit.
    """
    tasks = write_tasks(table, rows, uuid.uuid4(), itertools.count()) if rows.num_rows else iter(())
    made = list(write_file(table.io, table.metadata, tasks))
    table.metadata.properties[RETRIES] = "0"  # of this object: a repetition could replace files that are gone
    transaction = table.transaction()
    if properties:
        transaction.set_properties(dict(properties))
    with transaction.update_snapshot(snapshot_properties=dict(properties)).overwrite() as overwrite:
        for task in files:
            overwrite.delete_data_file(task.file)
        for one in made:
            overwrite.append_data_file(one)
    transaction.commit_transaction()


def _path_of(location: str) -> str:
    place = urlparse(location)
    return f"{place.netloc}{place.path}" if place.scheme else location


def _all_files(table: StoredTable) -> Iterable[str]:
    """Each file that the table's metadata names: of data, of manifests, of older metadata."""
    yield table.metadata_location
    yield from (one.metadata_file for one in table.metadata.metadata_log)
    yield from (one.statistics_path for one in table.metadata.statistics)
    for snapshot in table.snapshots():
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            yield manifest.manifest_path
    yield from _data_files(table, table.snapshots())


def _manifests(table: StoredTable, snapshots: Sequence[Snapshot]) -> dict[str, object]:
    return {one.manifest_path: one for snapshot in snapshots for one in snapshot.manifests(table.io)}


def _data_files(table: StoredTable, snapshots: Sequence[Snapshot]) -> set[str]:
    found = set()
    for manifest in _manifests(table, snapshots).values():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):  # type: ignore[attr-defined]
            found.add(entry.data_file.file_path)
    return found


def _unused_files(table: StoredTable, expired: Sequence[Snapshot], retained: Sequence[Snapshot]) -> list[str]:
    """Files of expired snapshots that no retained one has."""
    kept, old = _manifests(table, retained), _manifests(table, expired)
    gone = [path for path in old if path not in kept]
    files = {
        entry.data_file.file_path
        for path in gone
        for entry in old[path].fetch_manifest_entry(table.io, discard_deleted=False)  # type: ignore[attr-defined]
        if entry.status != ManifestEntryStatus.DELETED
    }
    deleted = {
        entry.data_file.file_path
        for manifest in kept.values()
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)  # type: ignore[attr-defined]
        if entry.status == ManifestEntryStatus.DELETED
    }
    unused = (files | deleted) - _data_files(table, retained) if files or deleted else set()
    return [*unused, *gone, *(one.manifest_list for one in expired)]
