"""Topics as Iceberg tables with a row for each key: the last one.

The changes of a commit are in memory, the last one of each key; where they are many, they go into files that no commit has
yet. The commit has the files that are written again, the new ones, and the offsets, so a process that ends at any instant
leaves a table whose rows are those of its offsets. Another program's commit in between fails this one: the turn is repeated
on top of it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table as StoredTable

from ..admin.table_owner import Owner
from .changes import Changes, last_of
from .data_files import commit_replacement
from .iceberg import DEFAULT_NAMESPACE, OFFSETS, IcebergTable, arrow_schema, covered_of
from .key_columns import VALUE, column_type
from .key_index import KeyIndex
from .keyed import KEYED, Envelope, Keyed
from .keyed_files import KeyedFiles
from .keyed_records import RECORDS, KeyedRecords, record_schema
from .maintenance import Maintenance
from .store import ArchiveError, Covered, PartitionBy, TableChanged

#: Changes in memory, in bytes of Arrow: more go into files.
_MOST_PENDING_BYTES = 256 << 20


class KeyedTable(IcebergTable):
    """A topic's table with a row for each key (store.Table). Takes a row of each record; a null value deletes the row."""

    def __init__(
        self,
        catalog: Catalog,
        owner: Owner,
        keyed: Keyed,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        name: str | None = None,
        maintenance: Maintenance | None = None,
        lock_folder: Path | None = None,
    ) -> None:
        """As IcebergTable. Raises ArchiveError for a table with another key, too, or with a row for each record."""
        self._keyed: Keyed = keyed
        self._records = KeyedRecords(keyed, owner.topic)
        self.rules = self._records
        self._index = KeyIndex(keyed.key)
        self._pending: list[Changes] = []
        #: The files after the next commit; None where no change has come since the last one.
        self._changed: KeyedFiles | None = None
        self.most_pending_bytes = _MOST_PENDING_BYTES
        super().__init__(
            catalog, owner, namespace=namespace, name=name, partition_by=PartitionBy.none, maintenance=maintenance,
            lock_folder=lock_folder,
        )  # fmt: skip

    def _open(self) -> None:
        super()._open()
        if self._table is not None and self._table.properties.get(KEYED) != self._keyed.text():
            with self._table.transaction() as transaction:  # another order or life of rows
                transaction.set_properties({KEYED: self._keyed.text()})

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of records; for change events with the event as the value."""
        stored = super().schema
        if stored is None:
            return None
        return record_schema(stored, self._keyed, self._staged.properties)

    def evolve(self, schema: pa.Schema) -> None:
        stored = self._records.stored_schema(schema)
        if self._table is None or self.schema != schema:
            self._apply()  # the rows of files have one schema
        super().evolve(stored)
        self._add_partitions()
        self._keep_record_schema(schema)

    def _keep_record_schema(self, schema: pa.Schema) -> None:
        if self._keyed.envelope is Envelope.none or VALUE not in schema.names:
            return
        text = base64.b64encode(schema.serialize()).decode()
        assert self._table is not None
        if self._restarted is not None:
            self._restarted.set_properties({RECORDS: text})
        elif self._table.properties.get(RECORDS) != text:
            with self._table.transaction() as transaction:
                transaction.set_properties({RECORDS: text})

    def _partition(self, table: StoredTable) -> None:
        """Does nothing: a column of the value may come later, with the first value."""

    def _add_partitions(self) -> None:
        wanted, table = self._keyed.partition_by, self._table
        if not wanted or table is None or table.spec().fields or self._restarted is not None:
            return
        schema = arrow_schema(table)
        missing = [one.path for one in wanted if column_type(schema, one.path) is None]
        if missing and VALUE in schema.names:
            raise ArchiveError(f"table {self.name} has no column {missing[0]} of --partition-by")
        if not missing:
            with table.update_spec() as update:
                for one in wanted:
                    update.add_field(one.path, one.transform, one.name)

    def restart(self, schema: pa.Schema) -> None:
        self._forget_changes()
        table = self._table
        if table is not None:
            for field in table.spec().fields:
                if "." in (table.schema().find_column_name(field.source_id) or ""):
                    raise ArchiveError(
                        f"table {self.name} is partitioned by {field.name}, a field of values, so they cannot have other "
                        f"types: archive to another one, --table {self._owner.topic}=NAME, with --value-schema"
                    )
        super().restart(self._records.stored_schema(schema))
        self._changed = KeyedFiles((), self._keyed, self._index)
        self._keep_record_schema(schema)

    def write(self, rows: pa.Table, dead_letter_records: pa.Table) -> None:
        if dead_letter_records.num_rows:
            self.create_dead_letter_table()
            self.add([], self.file_writer().dead_letter_records(dead_letter_records))
        self._pending.append(self._records.changes(rows))
        if sum(one.nbytes for one in self._pending) < self.most_pending_bytes:
            return
        self._pending = [last_of(self._pending)]
        if self._pending[0].nbytes * 2 >= self.most_pending_bytes:  # few records have the key of another one
            self._apply()

    def _apply(self) -> None:
        """Takes the changes in memory into files. Raises TableChanged where another process has committed offsets."""
        if not self._pending:
            return
        pending = last_of(self._pending)
        self._pending = []
        assert self._table is not None
        if self._changed is None:
            self._table.refresh()
            if covered_of(self._table) != self._covered:
                raise TableChanged(f"another process archives {self._owner.topic} to table {self.name}")
            self._changed = KeyedFiles(self._table.scan().plan_files(), self._keyed, self._index)
        self._changed.apply(pending, self._staged, self.file_writer())
        self._files = self._changed.added

    def commit(self, covered: Covered) -> None:
        self._apply()
        super().commit(covered)
        self._changed = None

    def _commit_rows(self, table: StoredTable, files: Sequence[DataFile], covered: Covered) -> None:
        removed = [] if self._changed is None else self._changed.removed
        if not removed:
            super()._commit_rows(table, files, covered)
            return
        try:
            commit_replacement(table, removed, files, {OFFSETS: covered.text()})
        except CommitFailedException as error:
            raise ArchiveError(f"table {self.name} was changed by another program meanwhile: {error}") from None

    def abandon(self) -> None:
        self._forget_changes()
        super().abandon()

    def _forget_changes(self) -> None:
        self._pending, self._changed = [], None
