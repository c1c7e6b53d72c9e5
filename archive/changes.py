"""Changes of a keyed table: the last record of each key, whatever the order in which records come.

In a partition the record of the highest offset is the last one. A key has records in two partitions where partitions were
added, or producers partition differently: the partition with the newest timestamp of the key counts, of equal ones the one
of the highest number. So each row has NEWEST, the newest timestamp of its key in its partition. The rule is a maximum: it
has the same result for any division of the records into commits, as long as no deletion is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

#: The column with the newest timestamp of a row's key in the partition of the row.
NEWEST = pa.field("key_timestamp", pa.timestamp("us", tz="UTC"))
#: Records without a timestamp come before all others.
_NO_TIMESTAMP = np.iinfo(np.int64).min

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Versions:
    """The places of records in the order of their key, as columns."""

    newest: Numbers
    partitions: Numbers
    offsets: Numbers

    @classmethod
    def of(cls, rows: pa.Table) -> Versions:
        return cls(
            _stamps(rows.column(NEWEST.name)), _numbers(rows.column("partition")), _numbers(rows.column("offset"))
        )

    def take(self, places: Numbers) -> Versions:
        return Versions(self.newest[places], self.partitions[places], self.offsets[places])

    def is_after(self, others: Versions) -> Mask:
        """Returns for each version whether it comes after the other one at the same place."""
        in_partition = self.partitions == others.partitions
        is_newer = (self.newest > others.newest) | (
            (self.newest == others.newest) & (self.partitions > others.partitions)
        )
        return np.where(in_partition, self.offsets > others.offsets, is_newer)


def _numbers(column: pa.ChunkedArray) -> Numbers:
    found: Numbers = column.cast(pa.int64()).to_numpy()
    return found


def _stamps(column: pa.ChunkedArray) -> Numbers:
    return _numbers(pc.fill_null(column.cast(pa.int64()), int(_NO_TIMESTAMP)))


@dataclass(frozen=True)
class Changes:
    """`rows`: in the columns of the table with NEWEST; those of deletions need no value. `keys`: as `KeyColumns.encoded`."""

    rows: pa.Table
    keys: pa.Array
    is_delete: Mask

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + self.keys.nbytes)

    def take(self, places: Numbers) -> Changes:
        chosen = pa.array(places)
        return Changes(self.rows.take(chosen), self.keys.take(chosen), self.is_delete[places])

    def and_then(self, others: Changes) -> Changes:
        """The last change of each key of both, which have the same columns."""
        rows = pa.concat_tables([self.rows, others.rows])
        keys = pa.concat_arrays([self.keys, others.keys])
        return Changes(rows, keys, np.concatenate([self.is_delete, others.is_delete])).last()

    def last(self) -> Changes:
        """The last change of each key, with the newest timestamp of the key in its partition."""
        if not len(self):
            return self
        versions = Versions.of(self.rows)
        ids = self.keys.dictionary_encode().indices.to_numpy().astype(np.int64)
        order = np.lexsort((versions.offsets, versions.partitions, ids))
        ids, sorted_versions = ids[order], versions.take(order)
        # One group for each key and partition: its end is the last record, its maximum the newest timestamp.
        is_start = np.ones(len(ids), bool)
        is_start[1:] = (ids[1:] != ids[:-1]) | (sorted_versions.partitions[1:] != sorted_versions.partitions[:-1])
        starts = np.flatnonzero(is_start)
        ends = np.append(starts[1:], len(ids)) - 1
        newest = np.maximum.reduceat(sorted_versions.newest, starts)
        by_rule = np.lexsort((sorted_versions.partitions[ends], newest, ids[ends]))
        is_last = np.append(np.diff(ids[ends][by_rule]) != 0, True)
        groups = np.sort(by_rule[is_last])
        return self.take(order[ends[groups]]).with_newest(newest[groups])

    def with_newest(self, newest: Numbers) -> Changes:
        stamps = pa.array(newest, pa.int64(), mask=newest == _NO_TIMESTAMP).cast(NEWEST.type)
        number = self.rows.schema.get_field_index(NEWEST.name)
        return Changes(self.rows.set_column(number, NEWEST, stamps), self.keys, self.is_delete)


@dataclass(frozen=True)
class Superseded:
    """Stored rows and changes of their keys. `rows`: places of rows that a change takes the place of, or deletes.
    `changes`: places of these changes. `late`: places of changes that come before the row that is stored.
    """

    rows: Numbers
    changes: Numbers
    late: Numbers

    @classmethod
    def of(cls, changes: Changes, versions: Versions, stored_keys: pa.Array, stored: Versions) -> Superseded:
        """`versions`: of the changes. `stored`: the keys and the versions of stored rows."""
        found = pc.index_in(stored_keys, value_set=changes.keys)
        rows = np.flatnonzero(found.is_valid().to_numpy(False)).astype(np.int64)
        places = pc.drop_null(found).to_numpy().astype(np.int64)
        is_after = versions.take(places).is_after(stored.take(rows))
        return cls(rows[is_after], places[is_after], places[~is_after])
