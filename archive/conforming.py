"""Values in the type of a table's column, and the rows whose values do not fit it, with the reason."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columns.decimal_texts import with_plain_texts
from ..columns.json_raw_types import exact_below
from ..columns.timestamp_units import floored
from .column_types import is_in_nanoseconds


class Conformed(NamedTuple):
    """`values` of the type; null in the rows of `bad`, which have the reason."""

    values: pa.Array
    bad: dict[int, str]


def conformed(values: pa.Array, kind: pa.DataType, name: str = "") -> Conformed:
    """Values as a table's type. Fields that the type lacks are left out; those that the values lack are null."""
    if values.type == kind:
        return Conformed(values, {})
    values = _numbered(values) if pa.types.is_int64(kind) else floored(values, kind)
    if pa.types.is_struct(kind) and pa.types.is_struct(values.type):
        return _conformed_struct(values, kind, name)
    if pa.types.is_list(kind) and pa.types.is_list(values.type):
        return _conformed_list(values, kind, name)
    if pa.types.is_map(kind) and pa.types.is_map(values.type):
        return _conformed_map(values, kind, name)
    if _is_cast(values.type, kind):
        try:
            made = _cast(values, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
        else:
            if not _changed(values, made):
                return Conformed(made, {})
    return _row_by_row(values, kind, name)


def fitted_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of a table that has grown from theirs: null where they lack one."""
    columns = []
    for field in schema:
        if field.name not in rows.schema.names:
            columns.append(pa.nulls(rows.num_rows, field.type))
            continue
        chunks = [conformed(one, field.type) for one in rows.column(field.name).chunks]
        assert not any(one.bad for one in chunks), "a column of a table grows"
        columns.append(pa.chunked_array([one.values for one in chunks], field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(values.type) and pa.types.is_decimal(kind):
        values = with_plain_texts(values, kind)
    return values.cast(kind)


def _changed(values: pa.Array, stored: pa.Array) -> bool:
    """Returns whether Arrow has rounded a number: in decimals, in smaller floats, and integers in doubles."""
    if pa.types.is_floating(values.type) and (pa.types.is_decimal(stored.type) or pa.types.is_floating(stored.type)):
        found, given = stored.cast(pa.float64()), values.cast(pa.float64())
        differs = pc.and_(pc.not_equal(found, given), pc.invert(pc.is_nan(given)))
        return bool(pc.any(differs).as_py())
    if pa.types.is_floating(stored.type) and pa.types.is_decimal(values.type):
        large = pc.greater_equal(pc.abs(stored.cast(pa.float64())), float(exact_below(stored.type)))
        pairs = zip(values.filter(large).to_pylist(), stored.filter(large).to_pylist(), strict=True)
        return any(Fraction(one).denominator == 1 and one != other for one, other in pairs)
    return False


def _numbered(values: pa.Array) -> pa.Array:
    """Times of nanoseconds as their numbers since 1970, and times of day as microseconds since midnight."""
    if is_in_nanoseconds(values.type):
        return values.cast(pa.int64())
    return values.cast(pa.time64("us")).cast(pa.int64()) if pa.types.is_time(values.type) else values


def _conformed_struct(values: pa.Array, kind: pa.DataType, name: str) -> Conformed:
    bad: dict[int, str] = {}
    columns, parts = [], values.flatten()
    for field in kind:
        number = values.type.get_field_index(field.name)
        if number < 0:
            columns.append(pa.nulls(len(values), field.type))
            continue
        part = conformed(parts[number], field.type, f"{name}.{field.name}".lstrip("."))
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
    made: list[pa.Array] = [pa.nulls(1, kind)]
    places = np.zeros(len(values), np.int64)
    for row in np.flatnonzero(values.is_valid().to_numpy(False)).tolist():
        one = values.slice(row, 1)
        try:
            if not is_cast:
                raise pa.ArrowInvalid(f"is of the type {values.type}, and the table's column is {kind}")
            number = _cast(one, kind)
            if _changed(one, number):
                raise pa.ArrowInvalid(f"{one[0]} is not exact in {kind}")
            made.append(number)
            places[row] = len(made) - 1
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            bad[row] = f"{name or 'the value'}: {str(error).partition(chr(10))[0]}"
    return Conformed(pa.concat_arrays(made).take(pa.array(places)), bad)


def without_rows(values: pa.Array, rows: Any) -> pa.Array:
    """The values with null, fields included, in these rows."""
    mask = np.zeros(len(values), bool)
    mask[list(rows)] = True
    return values.take(pa.array(np.arange(len(values)), mask=mask))
