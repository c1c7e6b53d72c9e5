"""Replacement of all rows of an Iceberg table and of its dead-letter records: two commits that count together.

No catalog here has a commit of two tables. The dead-letter records are replaced first, with a property of their table that
names the replacement and their snapshot before it. The snapshot of the topic's table names the same replacement, and then
the property is removed. Where a process ended with the property there, `recover` looks for the replacement in the topic's
table: without it, the dead-letter records are again those of the snapshot before.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table as StoredTable
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import ancestors_of

from .data_files import RETRIES

#: The property of a table of dead-letter records with the id of a replacement, and with the number of the snapshot before
#: it, if any; the property of a snapshot with the id.
_REPLACEMENT = "odradek.replacement"


def replace_all(
    transaction: Transaction,
    table: StoredTable,
    files: Sequence[DataFile],
    dead_table: StoredTable | None,
    dead_files: Sequence[DataFile],
    properties: Mapping[str, str],
) -> None:
    """Commits files in place of all others. `properties`: of both snapshots and tables. PyIceberg raises its errors."""
    name = uuid.uuid4().hex
    if dead_table is not None:
        before = dead_table.current_snapshot()
        marked = {_REPLACEMENT: f"{name} {'' if before is None else before.snapshot_id}"}
        _overwrite(_transaction(dead_table), dead_table, dead_files, properties, marked)
    _overwrite(transaction, table, files, properties, {}, {_REPLACEMENT: name})
    if dead_table is not None:
        with suppress(CommitFailedException):  # another program changes it: the next commit ends the replacement
            _end(dead_table)


def recover(table: StoredTable | None, dead_table: StoredTable | None, properties: Mapping[str, str]) -> None:
    """Ends a replacement that another process began. `properties`: of the dead-letter records before it."""
    text = None if dead_table is None else dead_table.properties.get(_REPLACEMENT)
    if dead_table is None or text is None:
        return
    name, _, before = text.partition(" ")
    if table is not None and _has(table, name):
        _end(dead_table)
        return
    snapshot = dead_table.snapshot_by_id(int(before)) if before else None
    if before and snapshot is None:  # another program expired it: no file of it may be left
        _end(dead_table)
        return
    tasks = dead_table.scan(snapshot_id=int(before)).plan_files() if before else ()
    transaction = _transaction(dead_table)
    transaction.remove_properties(_REPLACEMENT)
    _overwrite(transaction, dead_table, [task.file for task in tasks], properties, {})


def _has(table: StoredTable, name: str) -> bool:
    summaries = (one.summary for one in ancestors_of(table.current_snapshot(), table.metadata))
    return any(one is not None and one.get(_REPLACEMENT) == name for one in summaries)


def _end(dead_table: StoredTable) -> None:
    dead_table.refresh()
    with dead_table.transaction() as transaction:
        transaction.remove_properties(_REPLACEMENT)


def _transaction(table: StoredTable) -> Transaction:
    table.metadata.properties[RETRIES] = "0"  # a repetition would replace rows that came meanwhile
    return table.transaction()


def _overwrite(
    transaction: Transaction,
    table: StoredTable,
    files: Iterable[DataFile],
    properties: Mapping[str, str],
    of_table: Mapping[str, str],
    of_snapshot: Mapping[str, str] | None = None,
) -> None:
    transaction.set_properties({**properties, **of_table})
    named = {**properties, **(of_snapshot or {})}
    with transaction.update_snapshot(snapshot_properties=named).overwrite() as overwrite:
        for task in table.scan().plan_files():
            overwrite.delete_data_file(task.file)
        for one in files:
            overwrite.append_data_file(one)
    transaction.commit_transaction()
