"""Types of the columns of tables, and their evolution.

A table takes new columns, and wider types where Iceberg has the promotion: int to long, float to double, and decimals of
more digits. A column that a schema no longer has stays in the table; new rows have null there. Every other change leaves the
column as it is, and a row whose value does not fit is a dead-letter record (`conformed`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columns.values import floored

#: Digits of an unsigned integer of 64 bits.
_UINT64_DIGITS = 20
_INTEGERS = {
    pa.int8(): 32,
    pa.int16(): 32,
    pa.int32(): 32,
    pa.int64(): 64,
    pa.uint8(): 32,
    pa.uint16(): 32,
    pa.uint32(): 64,
}


def storable(kind: pa.DataType) -> pa.DataType:
    """The type of a column for values of a type: the types that Iceberg has."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, storable(one.type), one.nullable) for one in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = kind.value_field
        return pa.list_(pa.field("element", storable(item.type), item.nullable))
    if pa.types.is_map(kind):
        return pa.map_(storable(kind.key_type), storable(kind.item_type))
    if kind in _INTEGERS:
        return pa.int32() if _INTEGERS[kind] == 32 else pa.int64()
    if pa.types.is_uint64(kind):
        return pa.decimal128(_UINT64_DIGITS, 0)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    if pa.types.is_time(kind):
        return pa.time64("us")
    return _SIMPLE.get(kind, kind)


_SIMPLE = {
    pa.float16(): pa.float32(), pa.large_string(): pa.string(), pa.large_binary(): pa.binary(),
    pa.string_view(): pa.string(), pa.binary_view(): pa.binary(), pa.null(): pa.string(), pa.date64(): pa.date32(),
}  # fmt: skip


def merged(old: pa.DataType, new: pa.DataType) -> pa.DataType:
    """The type of a column for values of a table's type and of a schema's."""
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        added = {one.name: one for one in new}
        kept = [_merged_field(one, added.pop(one.name, None)) for one in old]
        return pa.struct([*kept, *(pa.field(one.name, one.type) for one in added.values())])
    if pa.types.is_list(old) and pa.types.is_list(new):
        return pa.list_(_merged_field(old.value_field, new.value_field))
    if pa.types.is_map(old) and pa.types.is_map(new):
        return pa.map_(old.key_type, merged(old.item_type, new.item_type))
    return new if _is_promotion(old, new) else old


def grown(old: pa.Schema, new: pa.Schema) -> pa.Schema:
    """The columns of a table for rows of its schema and of another."""
    return pa.schema(list(merged(pa.struct(list(old)), pa.struct(list(new)))))


def _merged_field(old: pa.Field, new: pa.Field | None) -> pa.Field:
    return old if new is None else pa.field(old.name, merged(old.type, new.type), old.nullable)


def _is_promotion(old: pa.DataType, new: pa.DataType) -> bool:
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(new.scale == old.scale and new.precision > old.precision)
    return (old, new) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


class Conformed(NamedTuple):
    """`values` of the type; null in the rows of `bad`, which have the reason."""

    values: pa.Array
    bad: dict[int, str]


def conformed(values: pa.Array, kind: pa.DataType, name: str = "") -> Conformed:
    """Values as a table's type. Fields that the type lacks are left out; those that the values lack are null."""
    if values.type == kind:
        return Conformed(values, {})
    values = floored(values, kind)
    if pa.types.is_struct(kind) and pa.types.is_struct(values.type):
        return _conformed_struct(values, kind, name)
    if pa.types.is_list(kind) and pa.types.is_list(values.type):
        return _conformed_list(values, kind, name)
    if pa.types.is_map(kind) and pa.types.is_map(values.type):
        return _conformed_map(values, kind, name)
    if _is_cast(values.type, kind):
        try:
            return Conformed(values.cast(kind), {})
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
    return _row_by_row(values, kind, name)


def _conformed_struct(values: pa.Array, kind: pa.DataType, name: str) -> Conformed:
    bad: dict[int, str] = {}
    columns = []
    for field in kind:
        number = values.type.get_field_index(field.name)
        if number < 0:
            columns.append(pa.nulls(len(values), field.type))
            continue
        part = conformed(pc.struct_field(values, [number]), field.type, f"{name}.{field.name}".lstrip("."))
        columns.append(part.values)
        bad = part.bad | bad
    is_null = values.is_null()
    made = pa.StructArray.from_arrays(columns, fields=list(kind), mask=is_null if values.null_count else None)
    return Conformed(made, bad)


def _conformed_list(values: pa.Array, kind: pa.DataType, name: str) -> Conformed:
    inner = conformed(values.flatten(), kind.value_type, f"{name}[]")
    parents = pc.list_parent_indices(values) if inner.bad else None
    bad = {parents[row].as_py(): reason for row, reason in inner.bad.items()} if parents is not None else {}
    return Conformed(pa.ListArray.from_arrays(_list_offsets(values), inner.values, type=kind), bad)


def _conformed_map(values: pa.Array, kind: pa.DataType, name: str) -> Conformed:
    entries = values.cast(pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])))
    flat = entries.flatten()
    keys = conformed(pc.struct_field(flat, [0]), kind.key_type, f"{name}{{}}")
    items = conformed(pc.struct_field(flat, [1]), kind.item_type, f"{name}{{}}")
    inner = items.bad | keys.bad
    parents = pc.list_parent_indices(entries) if inner else None
    bad = {parents[row].as_py(): reason for row, reason in inner.items()} if parents is not None else {}
    if keys.bad:  # a map's key cannot be null: no row of this array is stored
        return Conformed(pa.nulls(len(values), kind), {row: next(iter(bad.values())) for row in range(len(values))})
    return Conformed(pa.MapArray.from_arrays(_list_offsets(entries), keys.values, items.values, type=kind), bad)


def _list_offsets(values: pa.Array) -> pa.Array:
    """Offsets from 0 with a null for each null list, as `from_arrays` takes them."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = np.append(values.is_null().to_numpy(False), False)
    return pa.array(offsets, pa.int32(), mask=mask)


def _is_cast(old: pa.DataType, new: pa.DataType) -> bool:
    """Returns whether values of a type may stand for those of another, where each of them fits."""
    if pa.types.is_string(new):
        return not pa.types.is_nested(old) and not pa.types.is_binary(old)
    if pa.types.is_string(old):
        return not pa.types.is_nested(new) and not pa.types.is_binary(new)
    if _is_number(old) and _is_number(new):
        return True
    same = (pa.types.is_timestamp, pa.types.is_time, pa.types.is_date)
    return any(check(old) and check(new) for check in same)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _row_by_row(values: pa.Array, kind: pa.DataType, name: str) -> Conformed:
    bad: dict[int, str] = {}
    is_cast = _is_cast(values.type, kind)
    made: list[Any] = [pa.nulls(1, kind)]
    places = np.zeros(len(values), np.int64)
    for row in np.flatnonzero(values.is_valid().to_numpy(False)).tolist():
        one = values.slice(row, 1)
        try:
            if not is_cast:
                raise pa.ArrowInvalid(f"is of the type {values.type}, and the table's column is {kind}")
            made.append(one.cast(kind))
            places[row] = len(made) - 1
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            bad[row] = f"{name or 'the value'}: {str(error).partition(chr(10))[0]}"
    return Conformed(pa.concat_arrays(made).take(pa.array(places)), bad)


def without_rows(values: pa.Array, rows: Any) -> pa.Array:
    """The values with null, fields included, in these rows."""
    mask = np.zeros(len(values), bool)
    mask[list(rows)] = True
    return values.take(pa.array(np.arange(len(values)), mask=mask))
