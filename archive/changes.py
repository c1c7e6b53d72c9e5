"""Changes of a keyed table: the last record of each key in each partition, and the one of them that makes the row.

In a partition the record of the highest offset is the last one. A key has records in two partitions where partitions were
added, or producers partition differently: the partition with the newest timestamp of the key counts, of equal ones the one
of the highest number. So each row has NEWEST, the newest timestamp of its key in its partition. The rule is a maximum: it
has the same result for any division of the records into commits, as long as no deletion is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class Versions(NamedTuple):
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

    def last(self) -> Changes:
        """The last change of each key in each partition, with the newest timestamp of the key there."""
        if not len(self):
            return self
        versions = Versions.of(self.rows)
        ids, _ = self.numbered_keys()
        order = np.lexsort((versions.offsets, versions.partitions, ids))
        ids, partitions = ids[order], versions.partitions[order]
        # One group for each key and partition: its end is the last record, its maximum the newest timestamp.
        is_start = np.append(True, (ids[1:] != ids[:-1]) | (partitions[1:] != partitions[:-1]))
        starts = np.flatnonzero(is_start)
        ends = np.append(starts[1:], len(ids)) - 1
        newest = np.maximum.reduceat(versions.newest[order], starts)
        return self.take(order[ends]).with_newest(newest)

    def numbered_keys(self) -> tuple[Numbers, pa.Array]:
        """The number of each change's key, and the keys in the order of their numbers."""
        coded = self.keys.dictionary_encode()
        return coded.indices.to_numpy().astype(np.int64), coded.dictionary

    def with_newest(self, newest: Numbers) -> Changes:
        stamps = pa.array(newest, pa.int64(), mask=newest == _NO_TIMESTAMP).cast(NEWEST.type)
        number = self.rows.schema.get_field_index(NEWEST.name)
        return Changes(self.rows.set_column(number, NEWEST, stamps), self.keys, self.is_delete)


def last_of(parts: Sequence[Changes]) -> Changes:
    """The last changes of all parts, one at least, which have the same columns."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables([one.rows for one in parts])
    keys = pa.concat_arrays([one.keys for one in parts])
    return Changes(rows, keys, np.concatenate([one.is_delete for one in parts])).last()


class StoredVersions:
    """The versions of the rows that a table has for keys, by the numbers of the keys."""

    def __init__(self, count: int) -> None:
        self._is_stored = np.zeros(count, bool)
        self._versions = Versions(*(np.zeros(count, np.int64) for _ in range(3)))

    def set(self, keys: Numbers, versions: Versions) -> None:
        self._is_stored[keys] = True
        for mine, others in zip(self._versions, versions, strict=True):
            mine[keys] = others

    def winners(self, changes: Versions, keys: Numbers) -> tuple[Numbers, Numbers]:
        """The places of the changes that make or delete the rows of their keys, one at most for each key, and the newest
        timestamps of all changes. `keys`: the number of each change's key.
        """
        stored, is_stored = self._versions.take(keys), self._is_stored[keys]
        in_partition = is_stored & (changes.partitions == stored.partitions)
        newest = np.where(in_partition, np.maximum(changes.newest, stored.newest), changes.newest)
        is_newer = (newest > stored.newest) | ((newest == stored.newest) & (changes.partitions > stored.partitions))
        wins = ~is_stored | np.where(in_partition, changes.offsets > stored.offsets, is_newer)
        places = np.flatnonzero(wins)
        order = places[np.lexsort((changes.partitions[places], newest[places], keys[places]))]
        is_last = np.append(np.diff(keys[order]) != 0, True)[: len(order)]
        return order[is_last], newest
