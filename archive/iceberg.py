"""Topics as Apache Iceberg tables, by PyIceberg and any of its catalogs.

A commit has the rows, and in the summary of its snapshot the offsets that the table covers. The same text is a property of
the table in the same commit, for the case that other programs have expired all snapshots with it. The offsets of a table are
those of the newest ancestor of its current snapshot that has some: a table that is rolled back to a snapshot has that
snapshot's, and the records after them are archived again.

Dead-letter records are in a table of their own, which is committed first. Where a process ended between the two commits, the
next one deletes the dead-letter records above the offsets of the topic's table, and finds them again.

- `write_tasks`, `FileWriter`: data files, rows by partition, as PyIceberg writes them.
- `Maintenance`: merging small files, expiring snapshots, deleting files that no snapshot has.
- `IcebergTable`: a topic's table for the archiver; `IcebergSource`: one that a replay reads.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO, pyarrow_to_schema, schema_to_pyarrow, write_file
from pyiceberg.manifest import DataFile, ManifestEntryStatus
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.table import FileScanTask, WriteTask
from pyiceberg.table import Table as StoredTable
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform
from pyiceberg.types import TimestamptzType

from .rows import DEAD_LETTER_SCHEMA, grown, storable
from .store import (
    ROW_GROUP_ROWS,
    TARGET_FILE_BYTES,
    ArchiveError,
    Covered,
    FileRange,
    PartitionBy,
    TableChanged,
    bounded_tables,
    check_topic,
    dead_letter_name,
    groups_to_merge,
    locked,
    partitioned,
    table_name,
)

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


# ---- tables

#: The offsets of a table, in summaries of snapshots and in properties.
OFFSETS = "odradek.offsets"
CATALOG = "odradek"
DEFAULT_NAMESPACE = "kafka"
#: A commit is repeated on top of commits of other programs that change no offsets: compaction, new columns.
_MOST_COMMITS = 5
#: A commit each few seconds would leave thousands of metadata files and manifests a day.
_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "32",
    "write.parquet.row-group-limit": str(ROW_GROUP_ROWS),
}


def open_catalog(warehouse: str | Path | None, properties: Mapping[str, str]) -> Catalog:
    """A catalog by PyIceberg's properties, or one of SQLite in a folder. Raises ArchiveError."""
    made = dict(properties)
    if warehouse is not None:
        warehouse = Path(warehouse).absolute()
        warehouse.mkdir(parents=True, exist_ok=True)
        made = {"type": "sql", "uri": f"sqlite:///{warehouse}/catalog.db", "warehouse": warehouse.as_uri()} | made
    try:
        return load_catalog(CATALOG, **made)
    except Exception as error:  # libraries of catalogs raise errors of their own
        raise ArchiveError(f"the catalog cannot be opened: {str(error).strip()}") from None


class IcebergTable:
    """A topic's table (store.Table)."""

    def __init__(
        self,
        catalog: Catalog,
        topic: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        name: str | None = None,
        partition_by: PartitionBy = PartitionBy.day,
        maintenance: Maintenance | None = None,
        lock_folder: Path | None = None,
    ) -> None:
        """`lock_folder`: has a lock of the table, where all archivers of the table are on this machine. Without it, the
        second of two archivers that begin at the same moment could take back dead-letter records of the first.

        Raises ArchiveError for a table of another topic, and where another process has the lock.
        """
        self._catalog = catalog
        self._topic = topic
        self._partition_by = partition_by
        self._maintenance = maintenance or Maintenance()
        self._identifier = (*namespace.split("."), name or table_name(topic))
        self._dead_identifier = (*namespace.split("."), dead_letter_name(self._identifier[-1]))
        self._files: list[DataFile] = []
        self._dead_files: list[DataFile] = []
        self._table: StoredTable | None = None
        self._dead_table: StoredTable | None = None
        self._covered: Covered | None = None
        self._lock = None if lock_folder is None else locked(lock_folder / f".locks/{self.name}/lock")
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._table = self._loaded(self._identifier)
        self._dead_table = self._loaded(self._dead_identifier)
        self._covered = covered_of(self._table)
        check_topic(self._covered, self._topic, self.name)
        self._take_back_dead_letter_records()
        for table in self._tables():
            self._maintenance.remove_orphans(table)

    def _loaded(self, identifier: tuple[str, ...]) -> StoredTable | None:
        with suppress(NoSuchTableError):
            return self._catalog.load_table(identifier)
        return None

    def _tables(self) -> list[StoredTable]:
        return [one for one in (self._table, self._dead_table) if one is not None]

    @property
    def name(self) -> str:
        return ".".join(self._identifier)

    @property
    def covered(self) -> Covered | None:
        return self._covered

    @property
    def schema(self) -> pa.Schema | None:
        return None if self._table is None else arrow_schema(self._table)

    # ---- writing

    def evolve(self, schema: pa.Schema) -> None:
        if self._table is None:
            self._table = self._created(self._identifier, schema)
            return
        old = arrow_schema(self._table)
        wanted = grown(old, schema)
        if wanted != old:
            # A commit of its own: rows that follow have the new columns, and a schema without rows changes nothing.
            with self._table.update_schema() as update:
                update.union_by_name(wanted)

    def _created(self, identifier: tuple[str, ...], schema: pa.Schema) -> StoredTable:
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(identifier[:-1])
        table = self._catalog.create_table_if_not_exists(identifier, schema, properties=_PROPERTIES)
        unit = TRANSFORMS.get(self._partition_by)
        if unit is not None and table.spec() == UNPARTITIONED_PARTITION_SPEC and table.current_snapshot() is None:
            with table.update_spec() as update:
                update.add_field("timestamp", unit, f"timestamp_{self._partition_by.value}")
        return table

    def write(self, rows: pa.Table, dead_letter_records: pa.Table) -> None:
        if dead_letter_records.num_rows:
            self.create_dead_letter_table()
        writer = self.file_writer()
        self.add(writer.rows(rows), writer.dead_letter_records(dead_letter_records))

    def create_dead_letter_table(self) -> None:
        if self._dead_table is None:
            self._dead_table = self._created(self._dead_identifier, DEAD_LETTER_SCHEMA)

    def file_writer(self) -> FileWriter:
        """Writes files that `add` takes, in this process or in others. The table exists."""
        assert self._table is not None
        return FileWriter(self._table, self._dead_table)

    def add(self, files: Sequence[DataFile], dead_files: Sequence[DataFile]) -> None:
        """Takes written files into the next commit."""
        self._files += files
        self._dead_files += dead_files

    def commit(self, covered: Covered) -> None:
        if self._table is None:
            raise ArchiveError(f"table {self.name} does not exist: evolve comes first")
        # From here on, the files may be the table's, also where a catalog raises an error.
        files, dead_files = self._files, self._dead_files
        self._files, self._dead_files = [], []
        self._take_back_dead_letter_records()
        try:
            if dead_files:
                assert self._dead_table is not None
                self._append(self._dead_table, dead_files, covered, covered_of(self._dead_table))
            self._append(self._table, files, covered, self._covered)
        except TableChanged:
            delete_files(self._table.io, files)  # the dead-letter records are taken back
            raise
        self._covered = covered

    def _append(
        self, table: StoredTable, files: Sequence[DataFile], covered: Covered, expected: Covered | None
    ) -> None:
        text = covered.text()
        for number in itertools.count(1):
            if covered_of(table) != expected:
                raise TableChanged(f"another process archives {self._topic} to table {'.'.join(table.name())}")
            # The library would repeat a commit on top of another archiver's, with the same rows.
            table.metadata.properties[RETRIES] = "0"
            transaction = table.transaction()
            try:
                transaction.set_properties({OFFSETS: text})
                with transaction.update_snapshot(snapshot_properties={OFFSETS: text}).merge_append() as append:
                    for one in files:
                        append.append_data_file(one)
                transaction.commit_transaction()
                return
            except CommitFailedException as error:
                if number == _MOST_COMMITS:
                    raise ArchiveError(f"table {'.'.join(table.name())}: {error}") from None
                table.refresh()

    def abandon(self) -> None:
        self._delete_written()
        for one in self._tables():
            one.refresh()
        self._covered = covered_of(self._table)

    def _delete_written(self) -> None:
        for table, files in ((self._table, self._files), (self._dead_table, self._dead_files)):
            if table is not None:
                delete_files(table.io, files)
        self._files, self._dead_files = [], []

    def _take_back_dead_letter_records(self) -> None:
        """Deletes dead-letter records of a commit that the topic's table lacks."""
        table, covered = self._dead_table, covered_of(self._dead_table)
        if table is None or covered is None or not covered.has_more_than(self._covered):
            return
        known = self._covered.offsets if self._covered is not None else {}
        kept = Covered(covered.topic, covered.topic_id, dict(known)).text()
        files = [
            task
            for task in table.scan().plan_files()
            if any(range_of(table, task.file).reaches(one, known.get(one, 0)) for one in covered.offsets)
        ]
        rows = rows_of_files(table, files)
        is_above = pa.array(
            offset >= known.get(partition, 0)
            for partition, offset in zip(rows.column("partition").to_pylist(), rows.column("offset").to_pylist())
        )
        replace_files(table, files, rows.filter(pc.invert(is_above)), {OFFSETS: kept})

    # ---- maintenance

    def maintain(self) -> None:
        for table in self._tables():
            covered = covered_of(table)
            properties = {} if covered is None else {OFFSETS: covered.text()}
            with suppress(CommitFailedException):  # another program changes the table: next time
                self._maintenance.run(table, properties)

    def close(self) -> None:
        self._delete_written()
        if self._lock is not None:
            self._lock.close()


def covered_of(table: StoredTable | None) -> Covered | None:
    """The offsets of a table: of its current snapshot, of an ancestor, or of its properties."""
    if table is None:
        return None
    for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
        text = snapshot.summary.get(OFFSETS) if snapshot.summary is not None else None
        if text is not None:
            return Covered.from_text(text)
    found = table.properties.get(OFFSETS)
    return None if found is None or table.current_snapshot() is None else Covered.from_text(found)


def arrow_schema(table: StoredTable) -> pa.Schema:
    found = schema_to_pyarrow(table.schema(), include_field_ids=False)
    return pa.schema([pa.field(one.name, storable(one.type), one.nullable) for one in found])


def range_of(table: StoredTable, file: DataFile) -> FileRange:
    """The partitions and offsets of a file, by the bounds in its manifest."""
    low, high = (
        [_number(limit[table.schema().find_field(name).field_id]) for name in ("partition", "offset")]
        for limit in (file.lower_bounds, file.upper_bounds)
    )
    return FileRange(file.file_path, (low[0], high[0]), (low[1], high[1]), file.record_count)


class IcebergSource:
    """A table that is read back (store.Source)."""

    def __init__(self, catalog: Catalog, identifier: str) -> None:
        """Raises ArchiveError where there is no such table."""
        names = identifier.split(".")
        try:
            self._table = catalog.load_table(tuple(names) if len(names) > 1 else (DEFAULT_NAMESPACE, identifier))
        except NoSuchTableError:
            raise ArchiveError(f"the catalog has no table {identifier}") from None
        self.name = ".".join(self._table.name())
        self.schema = arrow_schema(self._table)

    def ranges(self) -> list[FileRange]:
        return [range_of(self._table, task.file) for task in self._table.scan().plan_files()]

    def read(self, partition: int, first_offset: int, next_offset: int) -> pa.Table:
        within = And(
            EqualTo("partition", partition),
            GreaterThanOrEqual("offset", first_offset),
            LessThan("offset", next_offset),
        )
        try:
            return self._table.scan(within).to_arrow()
        except FileNotFoundError:  # an archiver has merged files and expired snapshots meanwhile
            return self._table.refresh().scan(within).to_arrow()


def _number(bound: bytes) -> int:
    """A bound of an int or a long: Iceberg's single-value serialization."""
    return int.from_bytes(bound, "little", signed=True)


__all__ = ["CATALOG", "OFFSETS", "IcebergSource", "IcebergTable", "covered_of", "open_catalog"]
