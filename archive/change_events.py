"""Change events of Debezium: the rows before and after a change, and its kind.

An event is a struct with `op`, `before` and `after`, or has it in `payload` (JSON with its schema). `c`, `r` and `u` leave
the row `after`; `d` deletes the row `before`. https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from .column_types import merged
from .conforming import conformed
from .store import ArchiveError

_PAYLOAD, _BEFORE, _AFTER, _OP = "payload", "before", "after", "op"
_UPSERTS = pa.array(["c", "r", "u"])
DELETE = "d"


def with_one_row_type(kind: pa.DataType) -> pa.DataType:
    """The type of events with one type of rows, before and after the change: a sample may lack deletions."""
    if not pa.types.is_struct(kind):
        return kind
    if kind.get_field_index(_PAYLOAD) >= 0 and kind.get_field_index(_OP) < 0:
        return _with_field(kind, _PAYLOAD, with_one_row_type(kind.field(_PAYLOAD).type))
    rows = _row_type(kind)
    if rows is None:
        return kind
    for name in (_BEFORE, _AFTER):
        kind = _with_field(kind, name, rows)
    return kind


def _with_field(kind: pa.DataType, name: str, of_field: pa.DataType) -> pa.DataType:
    fields = [pa.field(name, of_field) if one.name == name else one for one in kind]
    if kind.get_field_index(name) < 0:
        fields.append(pa.field(name, of_field))
    return pa.struct(fields)


def _row_type(kind: pa.DataType) -> pa.DataType | None:
    """The type of the rows of events; None where no event has a row."""
    found = [kind.field(name).type for name in (_AFTER, _BEFORE) if kind.get_field_index(name) >= 0]
    structs = [one for one in found if pa.types.is_struct(one)]
    if not structs:
        return None
    return structs[0] if len(structs) == 1 else merged(*structs)


def row_type(kind: pa.DataType, topic: str) -> pa.DataType:
    """The type of a table's `value` for events of a type. Raises ArchiveError for values that are no events."""
    inner = kind
    if pa.types.is_struct(kind) and kind.get_field_index(_PAYLOAD) >= 0 and kind.get_field_index(_OP) < 0:
        inner = kind.field(_PAYLOAD).type
    if pa.types.is_struct(inner) and inner.get_field_index(_OP) >= 0:
        found = _row_type(inner)
        if found is not None:
            return found
    names = ", ".join(one.name for one in inner) if pa.types.is_struct(inner) else str(inner)
    raise ArchiveError(f"topic {topic}: the values are no change events with op, before and after; they have {names}")


class ChangeEvents:
    """The events of a column: `ops` is null where a value is, `rows` has the row that a change concerns."""

    def __init__(self, values: pa.ChunkedArray, topic: str) -> None:
        kind = row_type(values.type, topic)
        if values.type.get_field_index(_OP) < 0:
            values = pc.struct_field(values, [_PAYLOAD])
        self.ops: pa.ChunkedArray = pc.struct_field(values, [_OP]).cast(pa.string())
        before, after = (_rows_in(values, name, kind) for name in (_BEFORE, _AFTER))
        self.is_delete: pa.ChunkedArray = pc.fill_null(pc.equal(self.ops, DELETE), False)
        self.is_upsert: pa.ChunkedArray = pc.is_in(self.ops, value_set=_UPSERTS)
        self.rows: pa.ChunkedArray = pc.if_else(self.is_delete, before, after)


def _rows_in(events: pa.ChunkedArray, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    if events.type.get_field_index(name) < 0:
        return pa.chunked_array([pa.nulls(len(events), kind)])
    chunks = pc.struct_field(events, [name]).chunks
    return pa.chunked_array([conformed(one, kind).values for one in chunks], kind)
