"""Columns of a table by their paths, and the keys that some of them make: bytes that are equal where the keys are.

A path is the name of a column, or of a field of `value`: `key`, `timestamp`, `value.id`, `value.customer.id`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from .rows import RAW_SCHEMA
from .store import ArchiveError

RECORD_KEY = "key"
VALUE = "value"
#: Types by numbers that stay the same when a column is read again.
_NUMBERED = (pa.types.is_timestamp, pa.types.is_time, pa.types.is_date)


def column_path(name: str) -> str:
    """The path of a column that a user names: fields of the value need no `value.` before them. Raises ArchiveError."""
    if not name or any(not part for part in name.split(".")):
        raise ArchiveError(f"{name!r} is not the name of a column")
    is_whole = name in RAW_SCHEMA.names and name != VALUE
    return name if is_whole or name.startswith(f"{VALUE}.") else f"{VALUE}.{name}"


def column_type(schema: pa.Schema, path: str) -> pa.DataType | None:
    """The type of a column; None where the schema lacks it."""
    first, *others = path.split(".")
    kind = schema.field(first).type if first in schema.names else None
    for name in others:
        if kind is None or not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind


def column_at(rows: pa.Table, path: str) -> pa.ChunkedArray:
    """The column of a path, which the rows have: null where a struct on the way is."""
    first, *others = path.split(".")
    column = rows.column(first)
    return pc.struct_field(column, others) if others else column


def sorted_rows(rows: pa.Table, paths: Sequence[str]) -> pa.Table:
    """Rows by their columns, and those with equal ones by partition and offset."""
    names = [*paths, "partition", "offset"]
    columns = pa.table([column_at(rows, path) for path in names], names=[str(number) for number in range(len(names))])
    return rows.take(pc.sort_indices(columns, [(one, "ascending") for one in columns.schema.names]))


@dataclass(frozen=True)
class KeyColumns:
    """The key of a keyed table: `key` is that of the record, all others are fields of the value."""

    paths: tuple[str, ...]

    @classmethod
    def named(cls, names: Sequence[str]) -> KeyColumns:
        """Raises ArchiveError for names that make no key."""
        paths = tuple(column_path(one) for one in names)
        if not paths or len(set(paths)) != len(paths):
            raise ArchiveError("a key needs columns, each once")
        if any("." not in one for one in paths) and paths != (RECORD_KEY,):
            raise ArchiveError("a key is the record's `key`, or fields of its value")
        return cls(paths)

    @property
    def is_of_record(self) -> bool:
        return self.paths == (RECORD_KEY,)

    def __str__(self) -> str:
        return ",".join(one.removeprefix(f"{VALUE}.") for one in self.paths)

    def check(self, schema: pa.Schema, topic: str) -> None:
        """Raises ArchiveError where rows with values lack a column of the key, or have one that is no key."""
        if VALUE not in schema.names:
            return
        for path in self.paths:
            kind = column_type(schema, path)
            if kind is None:
                named = schema.field(VALUE).type
                known = (
                    ", ".join(one.name for one in named) if pa.types.is_struct(named) else "no columns: --value-format"
                )
                raise ArchiveError(f"topic {topic}: the values lack the column {path} of --key; they have {known}")
            if pa.types.is_floating(kind) or pa.types.is_nested(kind):
                raise ArchiveError(
                    f"topic {topic}: the column {path} of --key is of the type {kind}, which cannot be a key"
                )

    def encoded(self, rows: pa.Table) -> pa.Array:
        """The key of each row as large binary; null where a column of it is."""
        parts = [_bytes_of(column_at(rows, path)) for path in self.paths]
        if len(parts) == 1:
            return _combined(parts[0])
        pieces = []
        for one in parts:  # the length before each: ("a", "bc") is not ("ab", "c")
            pieces += [pc.binary_length(one).cast(pa.string()).cast(pa.large_binary()), one]
        joined: pa.ChunkedArray = pc.binary_join_element_wise(*pieces, pa.scalar(b":", pa.large_binary()))
        return _combined(joined)


def _bytes_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if any(check(kind) for check in _NUMBERED):
        column = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    if not pa.types.is_binary(kind) and not pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.string())
    return column.cast(pa.binary()).cast(pa.large_binary())


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
