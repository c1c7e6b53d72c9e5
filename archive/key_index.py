"""Keys and versions of the rows of files, which never change: the newest ones that were read stay in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as StoredTable
from pyiceberg.types import PrimitiveType

from .changes import NEWEST, Changes, Numbers, Versions
from .key_columns import KeyColumns, column_at
from .table_partitions import physical_values

#: Memory for keys that were read: those of some ten million rows.
_MOST_BYTES = 512 << 20


@dataclass(frozen=True)
class FileKeys:
    """The keys of a file's rows in their order, and their versions."""

    keys: pa.Array
    versions: Versions

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes) + 24 * len(self.keys)

    def places_of(self, keys: pa.Array) -> tuple[Numbers, Numbers]:
        """The places of rows with one of the keys, and for each the place of its key."""
        found = pc.index_in(self.keys, value_set=keys)
        rows = np.flatnonzero(found.is_valid().to_numpy(False)).astype(np.int64)
        return rows, pc.drop_null(found).to_numpy().astype(np.int64)


class KeyIndex:
    """Keys of files, by their paths."""

    def __init__(self, key: KeyColumns, most_bytes: int = _MOST_BYTES) -> None:
        self._key = key
        self._most_bytes = most_bytes
        self._files: OrderedDict[str, FileKeys] = OrderedDict()
        self._bytes = 0

    def of_file(self, table: StoredTable, task: FileScanTask) -> FileKeys:
        """Reads the columns of the key, and no others."""
        path = task.file.file_path
        found = self._files.pop(path, None)
        if found is None:
            columns = (*self._key.paths, "partition", "offset", NEWEST.name)
            scan = ArrowScan(table.metadata, table.io, table.schema().select(*columns), AlwaysTrue())
            rows = scan.to_table([task])
            found = FileKeys(self._key.encoded(rows), Versions.of(rows))
            self._bytes += found.nbytes
        self._files[path] = found
        while self._bytes > self._most_bytes and len(self._files) > 1:
            self._bytes -= self._files.popitem(last=False)[1].nbytes
        return found

    def forget(self, path: str) -> None:
        found = self._files.pop(path, None)
        self._bytes -= 0 if found is None else found.nbytes


@dataclass(frozen=True)
class KeyRange:
    """The values of the first column of the key in a file, both included; None where its manifest has no bound."""

    low: object
    high: object

    @classmethod
    def of(cls, table: StoredTable, task: FileScanTask, key: KeyColumns) -> KeyRange:
        field = table.schema().find_field(key.paths[0])
        assert isinstance(field.field_type, PrimitiveType)
        low, high = (limits.get(field.field_id) for limits in (task.file.lower_bounds, task.file.upper_bounds))
        return cls(*(None if one is None else from_bytes(field.field_type, one) for one in (low, high)))


class SortedKeys:
    """Keys of changes by the first column of them: those within the range of a file."""

    def __init__(self, changes: Changes, keys: pa.Array, key_of: Numbers, key: KeyColumns) -> None:
        """`keys`, `key_of`: as `Changes.numbered_keys`."""
        first_places = np.zeros(len(keys), np.int64)
        first_places[key_of[::-1]] = np.arange(len(key_of))[::-1]
        column = column_at(changes.rows, key.paths[0]).take(pa.array(first_places))
        values = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        self._numbers: Numbers = pc.sort_indices(values).to_numpy().astype(np.int64)
        # Values of one type with an order: numbers, texts, bytes, decimals.
        self._values = cast("list[int]", physical_values(values.take(pa.array(self._numbers))))

    def within(self, range_: KeyRange) -> Numbers:
        """The numbers of keys that a file with this range may have."""
        first = 0 if range_.low is None else bisect_left(self._values, cast("int", range_.low))
        end = len(self._values) if range_.high is None else bisect_right(self._values, cast("int", range_.high))
        return np.sort(self._numbers[first:end])
