"""Topics as Apache Iceberg tables, by PyIceberg and any of its catalogs.

A commit has the rows, and in the summary of its snapshot the offsets that the table covers. The same text is a property of
the table in the same commit, for the case that other programs have expired all snapshots with it. The offsets of a table are
those of the newest ancestor of its current snapshot that has some: a table that is rolled back to a snapshot has that
snapshot's, and the records after them are archived again.

Dead-letter records are in a table of their own, which is committed first. Where a process ended between the two commits, the
next one deletes the dead-letter records above the offsets of the topic's table, and finds them again.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import Table as StoredTable
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import ancestors_of

from ..admin.table_owner import OWNER, Owner, Role
from .column_types import grown, storable
from .data_files import RETRIES, TRANSFORMS, FileWriter, delete_files, range_of, replace_files, rows_of_files
from .keyed import KEYED, Keyed, check_keyed, keyed_of
from .maintenance import Maintenance
from .ownership import (
    DEAD_LETTER_SUFFIX,
    check_owner,
    checked_name,
    dead_letter_name,
    namespace_parts,
    stored_owner,
    table_name,
)
from .replacement import recover, replace_all
from .rows import DEAD_LETTER_SCHEMA, RAW_SCHEMA
from .store import (
    ROW_GROUP_ROWS,
    ArchiveError,
    Covered,
    FileRange,
    ForeignTable,
    PartitionBy,
    RowRules,
    TableChanged,
    locked,
)

#: The offsets of a table, in summaries of snapshots and in properties.
OFFSETS = "odradek.offsets"
CATALOG = "odradek"
DEFAULT_NAMESPACE = "kafka"
#: A commit is repeated on top of commits of other programs that change no offsets: compaction, new columns.
_MOST_COMMITS = 5
#: Columns that each table here has.
_COLUMNS = {one.name for one in RAW_SCHEMA if one.name != "value"}
#: A commit each few seconds would leave thousands of metadata files and manifests a day.
_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "32",
    "write.parquet.row-group-limit": str(ROW_GROUP_ROWS),
}

__all__ = ["CATALOG", "OFFSETS", "IcebergSource", "IcebergTable", "covered_of", "open_catalog"]


def open_catalog(warehouse: str | Path | None, properties: Mapping[str, str]) -> Catalog:
    """A catalog by PyIceberg's properties, or one of SQLite in a folder. Raises ArchiveError."""
    made = dict(properties)
    if made.get("type") == "sql" and "warehouse" in made:
        made["warehouse"] = _whole_place(made["warehouse"])
    if warehouse is not None:
        warehouse = Path(warehouse).resolve()  # `..` in metadata is a place that not all readers find
        warehouse.mkdir(parents=True, exist_ok=True)
        made = {"type": "sql", "uri": f"sqlite:///{warehouse}/catalog.db", "warehouse": warehouse.as_uri()} | made
    try:
        return load_catalog(CATALOG, **made)
    except Exception as error:  # libraries of catalogs raise errors of their own
        raise ArchiveError(f"the catalog cannot be opened: {str(error).strip()}") from None


def _whole_place(warehouse: str) -> str:
    """A folder's place from the root on: what is relative, or has `..`, is in the metadata of each table for good."""
    scheme, found, path = warehouse.partition("://")
    if found and scheme != "file":
        return warehouse
    return Path(unquote(path) if found else warehouse).resolve().as_uri()


class IcebergTable:
    """A topic's table (store.Table)."""

    rules: RowRules | None = None
    #: The settings of a keyed table.
    _keyed: Keyed | None = None

    def __init__(
        self,
        catalog: Catalog,
        owner: Owner,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        name: str | None = None,
        partition_by: PartitionBy = PartitionBy.day,
        maintenance: Maintenance | None = None,
        lock_folder: Path | None = None,
    ) -> None:
        """`lock_folder`: has a lock of the table, where all archivers of the table are on this machine. Without it, the
        second of two archivers that begin at the same moment could take back dead-letter records of the first.

        Raises ArchiveError for a table with another owner, and where another process has the lock.
        """
        self._catalog = catalog
        self._owner = owner
        self._partition_by = partition_by
        self._maintenance = maintenance or Maintenance()
        name = checked_name(table_name(owner.topic) if name is None else name)
        self._identifier = (*namespace_parts(namespace), name)
        self._dead_identifier = (*namespace_parts(namespace), dead_letter_name(name))
        self._files: list[DataFile] = []
        self._dead_files: list[DataFile] = []
        self._table: StoredTable | None = None
        self._dead_table: StoredTable | None = None
        self._covered: Covered | None = None
        #: The change of columns of a table that is made anew: its commit has the new rows.
        self._restarted: Transaction | None = None
        self._lock = None if lock_folder is None else locked(lock_folder / f".locks/{self.name}/lock")
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._table, self._dead_table = self._loaded(self._identifier), self._loaded(self._dead_identifier)
        if self._table is None:
            self._check_name()
        owned = [(self._table, self._owner), (self._dead_table, self._owner.of_dead_letters)]
        claims = [(table, owner, owner_of(table, owner)) for table, owner in owned if table is not None]
        for table, owner, stored in claims:
            check_owner(owner, stored, ".".join(table.name()))
        for table, owner, stored in claims:
            _claim(table, owner.known_with(stored))
        if self._table is not None:
            check_keyed(self._keyed, keyed_of(self._table.properties), self.name, self._owner.topic)
        self._covered = covered_of(self._table)
        self._take_back_dead_letter_records()
        for one in self._tables():
            self._maintenance.remove_orphans(one)

    def _check_name(self) -> None:
        """Raises ArchiveError for a name that the dead-letter records of another topic need, when they come."""
        *namespace, name = self._identifier
        first = name.removesuffix(DEAD_LETTER_SUFFIX)
        table = self._loaded((*namespace, first)) if first not in ("", name) else None
        if table is not None:
            with suppress(ForeignTable):
                check_owner(self._owner, owner_of(table).of_dead_letters, self.name)

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
        return None if self._table is None else arrow_schema(self._staged)

    @property
    def record_count(self) -> int:
        snapshots = (one.current_snapshot() for one in self._tables())
        summaries = (one.summary for one in snapshots if one is not None)
        return sum(int(one.get("total-records") or 0) for one in summaries if one is not None)

    # ---- writing

    def evolve(self, schema: pa.Schema) -> None:
        if self._table is None:
            self._table = self._created(self._identifier, schema, self._owner)
            return
        old = arrow_schema(self._staged)
        wanted = grown(old, schema)
        if wanted != old and self._restarted is not None:
            with self._restarted.update_schema() as update:
                update.union_by_name(wanted)
        elif wanted != old:
            # A commit of its own: rows that follow have the new columns, and a schema without rows changes nothing.
            with self._table.update_schema() as update:
                update.union_by_name(wanted)

    def _created(self, identifier: tuple[str, ...], schema: pa.Schema, owner: Owner) -> StoredTable:
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(identifier[:-1])
        properties = _PROPERTIES | {OWNER: owner.text()}
        if self._keyed is not None and owner == self._owner:
            properties[KEYED] = self._keyed.text()
        table = self._catalog.create_table_if_not_exists(identifier, schema, properties=properties)
        check_owner(owner, owner_of(table), ".".join(identifier))  # another process may have made it meanwhile
        self._partition(table)
        return table

    def _partition(self, table: StoredTable) -> None:
        unit = TRANSFORMS.get(self._partition_by)
        if unit is not None and table.spec() == UNPARTITIONED_PARTITION_SPEC and table.current_snapshot() is None:
            with table.update_spec() as update:
                update.add_field("timestamp", unit, f"timestamp_{self._partition_by.value}")

    @property
    def _staged(self) -> StoredTable:
        """The table as it will be after the next commit."""
        assert self._table is not None
        if self._restarted is None:
            return self._table
        table = self._table
        return StoredTable(
            table.name(), self._restarted.table_metadata, table.metadata_location, table.io, table.catalog
        )

    def restart(self, schema: pa.Schema) -> None:
        if self._table is None:
            self.evolve(schema)
            return
        self._table.metadata.properties[RETRIES] = "0"
        self._restarted = self._table.transaction()
        old = arrow_schema(self._table)
        with self._restarted.update_schema(allow_incompatible_changes=True) as update:
            for one in old:
                if one.name not in RAW_SCHEMA.names or one.name == "value":
                    update.delete_column(one.name)
        with self._restarted.update_schema() as update:
            update.union_by_name(schema)

    def write(self, rows: pa.Table, dead_letter_records: pa.Table) -> None:
        if dead_letter_records.num_rows:
            self.create_dead_letter_table()
        writer = self.file_writer()
        self.add(writer.rows(rows), writer.dead_letter_records(dead_letter_records))

    def create_dead_letter_table(self) -> None:
        if self._dead_table is None:
            self._dead_table = self._created(self._dead_identifier, DEAD_LETTER_SCHEMA, self._owner.of_dead_letters)

    def file_writer(self) -> FileWriter:
        """Writes files that `add` takes, in this process or in others. The table exists."""
        assert self._table is not None
        return FileWriter(self._staged, self._dead_table)

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
            if self._restarted is not None:
                self._replace_all(self._restarted, files, dead_files, covered)
                self._covered = covered
                return
            if dead_files:
                assert self._dead_table is not None
                self._append(self._dead_table, dead_files, covered, covered_of(self._dead_table))
            self._commit_rows(self._table, files, covered)
        except TableChanged:
            delete_files(self._table.io, files)  # the dead-letter records are taken back
            raise
        self._covered = covered

    def _commit_rows(self, table: StoredTable, files: Sequence[DataFile], covered: Covered) -> None:
        self._append(table, files, covered, self._covered)

    def _append(
        self, table: StoredTable, files: Sequence[DataFile], covered: Covered, expected: Covered | None
    ) -> None:
        text = covered.text()
        for number in itertools.count(1):
            if covered_of(table) != expected:
                raise TableChanged(f"another process archives {self._owner.topic} to table {'.'.join(table.name())}")
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

    def _replace_all(
        self, transaction: Transaction, files: Sequence[DataFile], dead_files: Sequence[DataFile], covered: Covered
    ) -> None:
        table, self._restarted = self._table, None
        assert table is not None
        try:
            replace_all(transaction, table, files, self._dead_table, dead_files, {OFFSETS: covered.text()})
        except CommitFailedException as error:
            raise ArchiveError(f"table {self.name} was changed by another program meanwhile: {error}") from None

    def abandon(self) -> None:
        self._restarted = None
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
        recover(self._table, self._dead_table, {} if self._covered is None else {OFFSETS: self._covered.text()})
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


def owner_of(table: StoredTable, of_empty: Owner | None = None) -> Owner:
    """The owner of a table; of one that an earlier release made, by its offsets. Raises ForeignTable, ArchiveError.

    `of_empty`: of a table without a commit that an earlier release made.
    """
    text = table.properties.get(OWNER)
    if text is not None:
        return stored_owner(text)
    columns, covered = set(table.schema().column_names), covered_of(table)
    if columns >= _COLUMNS and covered is not None:
        role = Role.dead_letters if "reason" in columns else Role.rows
        return Owner(covered.topic, topic_id=covered.topic_id, role=role)
    if columns >= _COLUMNS and table.current_snapshot() is None and of_empty is not None:
        return of_empty
    raise ForeignTable(
        f"table {'.'.join(table.name())} exists and is not of `odradek archive`: --table names another one"
    )


def _claim(table: StoredTable, owner: Owner) -> None:
    """Writes a table's owner where it has none, or one without an id that is known now."""
    if table.properties.get(OWNER) != owner.text():
        with table.transaction() as transaction:
            transaction.set_properties({OWNER: owner.text()})


def arrow_schema(table: StoredTable) -> pa.Schema:
    found = schema_to_pyarrow(table.schema(), include_field_ids=False)
    return pa.schema([pa.field(one.name, storable(one.type), one.nullable) for one in found])


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
        self.id = f"{self.name} {self._table.metadata.table_uuid}"
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
