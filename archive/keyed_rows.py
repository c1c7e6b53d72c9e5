"""The rows of a keyed table as of one commit, with the later changes of its log: the rows that the archiver would leave.

The changes are read once, and the last one of each key stays in memory, up to a budget. Rows of the table whose keys have
changes are left out, and the rows that the changes make come in their place. Which record makes the row of a key is the
archiver's own decision (changes.py): upserts, deletions, change events and keys that moved between partitions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ..columns import SCHEMA, Plan
from .applied_changes import AppliedChanges
from .changes import Changes, last_of
from .conforming import fitted_rows
from .key_columns import KeyColumns
from .key_index import KeyIndex
from .keyed import Keyed
from .keyed_records import KeyedRecords
from .log_rows import LogRows
from .store import ArchiveError
from .stored_rows import IcebergRows
from .stored_tasks import Choose, StoredTask

#: Changes in memory, in bytes of Arrow: as many as the archiver has.
MOST_CHANGED_BYTES = 256 << 20


@dataclass(frozen=True)
class _UnchangedRows:
    """The rows of a task of the table whose keys have no changes (stored_tasks.StoredTask)."""

    task: StoredTask
    columns: tuple[str, ...]
    key: KeyColumns
    changed: pa.Array

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self.task.batches():
            keys = self.key.encoded(pa.Table.from_batches([batch]))
            yield batch.filter(pc.invert(pc.is_in(keys, value_set=self.changed))).select(list(self.columns))


@dataclass(frozen=True)
class _ChangedRows:
    """The rows that changes make (stored_tasks.StoredTask)."""

    rows: pa.Table

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.rows.to_batches()


class KeyedChanges:
    """The changes behind the newest commit of a table, in place of the rows of its log (log_rows.LogRows)."""

    def __init__(self, stored: IcebergRows, keyed: Keyed, log: LogRows, topic: str) -> None:
        self.plan: Plan = log.plan
        self.key = keyed.key
        self._stored = stored
        self._log = log
        self._records = KeyedRecords(keyed, topic)

    @functools.cached_property
    def applied(self) -> AppliedChanges | None:
        """The changes, which the first reading finds out; None where there is none. Raises ArchiveError, ScanError."""
        changes = self._last()
        if changes is None or not len(changes):
            return None
        index = KeyIndex(self.key, 0)
        return AppliedChanges.of(changes, self._stored.files, self._stored.table, index, self.key)

    def _last(self) -> Changes | None:
        """The last change of each key in each partition; None without a record."""
        pending: list[Changes] = []
        if not self.plan.splits:
            return None
        for batch in self._log.batches(self.plan, SCHEMA.names):
            pending.append(self._records.changes(pa.Table.from_batches([batch])))
            if sum(one.nbytes for one in pending) >= MOST_CHANGED_BYTES:
                pending = [last_of(_of_one_schema(pending))]
                if pending[0].nbytes * 2 >= MOST_CHANGED_BYTES:
                    raise ArchiveError(
                        f"table {self._stored.name}: the log has changes of more than {MOST_CHANGED_BYTES >> 21} MB behind "
                        "its newest commit: run `odradek archive` first"
                    )
        return last_of(_of_one_schema(pending)) if pending else None

    def batches(self, plan: Plan, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for one in self.tasks(plan, columns, 1):
            yield from one.batches()

    def tasks(self, plan: Plan, columns: Sequence[str], task_bytes: int) -> Sequence[StoredTask]:
        """The rows that changes make, in a task that has them, unless a part of the plan has no splits."""
        if not plan.splits or self.applied is None:
            return ()
        rows = self.applied.rows
        return [_ChangedRows(rows.select([name for name in columns if name in rows.schema.names]))]

    def dead_letter_records(self) -> Iterator[pa.RecordBatch]:
        return self._log.dead_letter_records()


class KeyedRows:
    """The rows of a keyed table that no later change takes the place of (stored_rows.StoredRows)."""

    def __init__(self, stored: IcebergRows, changes: KeyedChanges) -> None:
        self.name, self.owner, self.covered, self.schema = stored.name, stored.owner, stored.covered, stored.schema
        self.keyed, self.records = stored.keyed, stored.records
        self._stored = stored
        self._changes = changes

    def batches(self, choose: Choose, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self._changes.applied is None:
            yield from self._stored.batches(choose, columns)
        else:
            for one in self.tasks(choose, columns, 1):
                yield from one.batches()

    def tasks(self, choose: Choose, columns: Sequence[str], task_bytes: int) -> Sequence[StoredTask]:
        if self._changes.applied is None:
            return self._stored.tasks(choose, columns, task_bytes)
        changed, key = self._changes.applied.changed_keys, self._changes.key
        of_key = {path.partition(".")[0] for path in key.paths}
        more = [name for name in self.schema.names if name in of_key and name not in columns]
        tasks = self._stored.tasks(choose, [*columns, *more], task_bytes)
        return [_UnchangedRows(one, tuple(columns), key, changed) for one in tasks]


def _of_one_schema(parts: Sequence[Changes]) -> list[Changes]:
    """Changes with the columns of the last ones, which have those of all before: columns are added and widened."""
    schema = parts[-1].rows.schema
    return [
        one if one.rows.schema == schema else Changes(fitted_rows(one.rows, schema), one.keys, one.is_delete)
        for one in parts
    ]
