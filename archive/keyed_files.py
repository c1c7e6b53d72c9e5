"""Files of a keyed table while changes come: which files a commit takes away, and which it adds.

A file is written again without the rows that changes take the place of, and with the new rows of its range of keys. All
other files stay. So the table has no file of deletions, and every engine that reads Iceberg reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as StoredTable

from .changes import Changes, Mask, Numbers, Superseded, Versions
from .conforming import fitted_rows
from .data_files import FileWriter, delete_files, rows_of_files
from .iceberg import arrow_schema
from .key_columns import sorted_rows
from .key_index import KeyIndex, KeyRange, SortedChanges
from .keyed import Keyed
from .store import TARGET_FILE_BYTES

_NO_FILE = -1


class _Hit(NamedTuple):
    """A file with rows that changes take the place of."""

    task: FileScanTask
    range: KeyRange
    is_kept: Mask


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
        versions = Versions.of(changes.rows)
        newest, is_late = versions.newest.copy(), np.zeros(len(changes), bool)
        file_of, hits = np.full(len(changes), _NO_FILE, np.int64), list[_Hit]()
        by_key = SortedChanges(changes, self._keyed.key)
        for task in list(self._live.values()):
            range_ = KeyRange.of(table, task, self._keyed.key)
            places = by_key.within(range_)
            if not len(places):
                continue
            stored = self._index.of_file(table, task)
            found = Superseded.of(changes.take(places), versions.take(places), stored.keys, stored.versions)
            is_late[places[found.late]] = True
            if len(found.rows):
                self._take_newest(newest, versions, places[found.changes], stored.versions.take(found.rows))
                is_kept = np.ones(len(stored.keys), bool)
                is_kept[found.rows] = False
                file_of[places[found.changes]] = len(hits)
                hits.append(_Hit(task, range_, is_kept))
        for number, hit in enumerate(hits):
            places = by_key.within(hit.range)
            file_of[places] = np.where(file_of[places] == _NO_FILE, number, file_of[places])
        chosen = np.flatnonzero(~is_late & ~changes.is_delete)
        self._rewrite(hits, changes.with_newest(newest).take(chosen).rows, file_of[chosen], table, writer)

    def _take_newest(self, newest: Numbers, versions: Versions, places: Numbers, stored: Versions) -> None:
        """A row of the same partition has the newest timestamp of all records of its key there."""
        is_same = versions.partitions[places] == stored.partitions
        newest[places[is_same]] = np.maximum(newest[places[is_same]], stored.newest[is_same])

    def _rewrite(
        self, hits: list[_Hit], rows: pa.Table, file_of: Numbers, table: StoredTable, writer: FileWriter
    ) -> None:
        """Writes the rows that are left of files, and new rows; neighbours that are small become one file."""
        schema = arrow_schema(table)
        rows = fitted_rows(rows, schema)
        parts: list[pa.Table] = []
        in_order = sorted(range(len(hits)), key=lambda number: _order_of(hits[number].range))
        for number in (*in_order, _NO_FILE):
            if number != _NO_FILE:
                hit = hits[number]
                left = rows_of_files(table, [hit.task]).filter(pa.array(hit.is_kept))
                parts.append(fitted_rows(left, schema))
            parts.append(rows.filter(pa.array(file_of == number)))
            if number == _NO_FILE or sum(one.nbytes for one in parts) >= self._target_bytes:
                self._write(pa.concat_tables(parts), writer)
                parts = []
        for hit in hits:
            self._remove(hit.task, table)

    def _write(self, rows: pa.Table, writer: FileWriter) -> None:
        if not rows.num_rows:
            return
        rows = sorted_rows(rows, self._keyed.sorted_by)
        files = -(-rows.nbytes // self._target_bytes)
        size = -(-rows.num_rows // files)
        for start in range(0, rows.num_rows, size):
            for one in writer.rows(rows.slice(start, size)):
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
