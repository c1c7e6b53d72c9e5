"""Changes applied to the files of a keyed table: rows of files that they take the place of, and rows that they make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as StoredTable

from .changes import Changes, Mask, Numbers, StoredVersions, Versions
from .key_columns import KeyColumns
from .key_index import KeyIndex, KeyRange, SortedKeys


class Hit(NamedTuple):
    """Rows of a file whose keys have changes. `rows`: their places in the file. `keys`: the numbers of their keys."""

    task: FileScanTask
    range: KeyRange
    rows: Numbers
    keys: Numbers


@dataclass(frozen=True)
class AppliedChanges:
    """`keys`: of all changes. `is_changed`: whether a change makes or deletes the row of a key. `hits`: of files with such
    keys. `rows`: those that changes make, and `row_keys`: the numbers of their keys.
    """

    keys: pa.Array
    by_key: SortedKeys
    hits: list[Hit]
    is_changed: Mask
    rows: pa.Table
    row_keys: Numbers

    @classmethod
    def of(
        cls, changes: Changes, tasks: Iterable[FileScanTask], table: StoredTable, index: KeyIndex, key: KeyColumns
    ) -> AppliedChanges:
        """`changes`: one at least, the last one of each key in each partition. Reads the keys of files that may have one."""
        key_of, keys = changes.numbered_keys()
        by_key = SortedKeys(changes, keys, key_of, key)
        stored, hits = StoredVersions(len(keys)), list[Hit]()
        for task in tasks:
            range_ = KeyRange.of(table, task, key)
            within = by_key.within(range_)
            if len(within):
                of_file = index.of_file(table, task)
                rows, found = of_file.places_of(keys.take(pa.array(within)))
                stored.set(within[found], of_file.versions.take(rows))
                hits.append(Hit(task, range_, rows, within[found]))
        winners, newest = stored.winners(Versions.of(changes.rows), key_of)
        is_changed = np.zeros(len(keys), bool)
        is_changed[key_of[winners]] = True
        hits = [one for one in hits if is_changed[one.keys].any()]
        upserts = np.sort(winners[~changes.is_delete[winners]])
        return cls(keys, by_key, hits, is_changed, changes.with_newest(newest).take(upserts).rows, key_of[upserts])

    @property
    def changed_keys(self) -> pa.Array:
        """The keys whose rows before the changes are gone."""
        return self.keys.filter(pa.array(self.is_changed))
