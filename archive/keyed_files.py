"""Files of a keyed table while changes come: which files a commit takes away, and which it adds.

A file is written again without the rows that changes take the place of, and with the new rows of its range of keys. All
other files stay. So the table has no file of deletions, and every engine that reads Iceberg reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as StoredTable

from .applied_changes import AppliedChanges
from .changes import Changes, Numbers
from .conforming import fitted_rows
from .data_files import FileWriter, delete_files, rows_of_files
from .iceberg import arrow_schema
from .key_columns import sorted_rows
from .key_index import KeyIndex, KeyRange
from .keyed import Keyed
from .store import TARGET_FILE_BYTES

_NO_FILE = -1


class KeyedFiles:
    """The files of a table after the next commit: `removed` ones are the snapshot's, `added` ones are in no commit."""

    def __init__(
        self, tasks: Iterable[FileScanTask], keyed: Keyed, index: KeyIndex, target_bytes: int = TARGET_FILE_BYTES
    ) -> None:
        """`target_bytes`: of the rows of a file, in memory."""
        self._live = {task.file.file_path: task for task in tasks}
        self._of_snapshot = set(self._live)
        self._keyed = keyed
        self._index = index
        self._target_bytes = target_bytes
        self.removed: list[DataFile] = []
        self.added: list[DataFile] = []

    def apply(self, changes: Changes, table: StoredTable, writer: FileWriter) -> None:
        """Takes the last change of each key into the files. `table`: as it will be after the commit."""
        if not len(changes):
            return
        applied = AppliedChanges.of(changes, self._live.values(), table, self._index, self._keyed.key)
        file_of = np.full(len(applied.keys), _NO_FILE, np.int64)
        for number, hit in enumerate(applied.hits):
            file_of[hit.keys] = number
        for number, hit in enumerate(applied.hits):
            within = applied.by_key.within(hit.range)
            file_of[within] = np.where(file_of[within] == _NO_FILE, number, file_of[within])
        self._rewrite(applied, file_of[applied.row_keys], table, writer)

    def _rewrite(self, applied: AppliedChanges, file_of: Numbers, table: StoredTable, writer: FileWriter) -> None:
        """Writes the rows that are left of files, and new rows; neighbours that are small become one file.

        `file_of`: of each new row, the number of the hit whose file has it.
        """
        hits = applied.hits
        schema = arrow_schema(table)
        rows = fitted_rows(applied.rows, schema)
        parts: list[pa.Table] = []
        in_order = sorted(range(len(hits)), key=lambda number: _order_of(hits[number].range))
        for number in (*in_order, _NO_FILE):
            if number != _NO_FILE:
                hit = hits[number]
                before = rows_of_files(table, [hit.task])
                is_kept = np.ones(before.num_rows, bool)
                is_kept[hit.rows[applied.is_changed[hit.keys]]] = False
                parts.append(fitted_rows(before.filter(pa.array(is_kept)), schema))
            parts.append(rows.filter(pa.array(file_of == number)))
            if number == _NO_FILE or sum(one.nbytes for one in parts) >= self._target_bytes:
                self._write(pa.concat_tables(parts), writer, table.spec().spec_id)
                parts = []
        for hit in hits:
            self._remove(hit.task, table)

    def _write(self, rows: pa.Table, writer: FileWriter, spec_id: int) -> None:
        if not rows.num_rows:
            return
        rows = sorted_rows(rows, self._keyed.sorted_by)
        files = -(-rows.nbytes // self._target_bytes)
        size = -(-rows.num_rows // files)
        for start in range(0, rows.num_rows, size):
            for one in writer.rows(rows.slice(start, size)):
                one.spec_id = spec_id  # PyIceberg sets it in files that it reads from manifests
                self.added.append(one)
                self._live[one.file_path] = FileScanTask(one, residual=AlwaysTrue())

    def _remove(self, task: FileScanTask, table: StoredTable) -> None:
        path = task.file.file_path
        del self._live[path]
        self._index.forget(path)
        if path in self._of_snapshot:
            self.removed.append(task.file)
        else:
            self.added = [one for one in self.added if one.file_path != path]
            with suppress(OSError):
                delete_files(table.io, [task.file])


def _order_of(range_: KeyRange) -> tuple[bool, object]:
    return range_.low is not None, range_.low if range_.low is not None else 0
