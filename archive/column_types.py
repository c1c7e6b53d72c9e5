"""Types of the columns of tables, and their evolution.

A table takes new columns, and wider types where Iceberg has the promotion: int to long, float to double, and decimals of
more digits. A column that a schema no longer has stays in the table; new rows have null there. Every other change leaves
the column as it is, and a row whose value does not fit is a dead-letter record.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

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

_SIMPLE = {
    pa.float16(): pa.float32(), pa.large_string(): pa.string(), pa.large_binary(): pa.binary(),
    pa.string_view(): pa.string(), pa.binary_view(): pa.binary(), pa.null(): pa.string(), pa.date64(): pa.date32(),
}  # fmt: skip


class Times(StrEnum):
    """Times in the columns of tables that not all engines have.

    `native`: nanoseconds are cut to microseconds, and times of day are Iceberg's `time`, which Spark does not read.
    `number`: nanoseconds since 1970, and microseconds since midnight.
    """

    native = "native"
    number = "number"


def storable(kind: pa.DataType, times: Times = Times.native) -> pa.DataType:
    """The type of a column for values of a type: the types that Iceberg has, and that all engines read."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, storable(one.type, times), one.nullable) for one in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = kind.value_field
        return pa.list_(pa.field("element", storable(item.type, times), item.nullable))
    if pa.types.is_map(kind):
        return pa.map_(storable(kind.key_type, times), storable(kind.item_type, times))
    if times is Times.number and (is_in_nanoseconds(kind) or pa.types.is_time(kind)):
        return pa.int64()
    if kind in _INTEGERS:
        return pa.int32() if _INTEGERS[kind] == 32 else pa.int64()
    if pa.types.is_uint64(kind):
        return pa.decimal128(_UINT64_DIGITS, 0)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    if pa.types.is_time(kind):
        return pa.time64("us")
    return _SIMPLE.get(kind, kind)


def is_in_nanoseconds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def cut_fields(kind: pa.DataType, stored: pa.DataType, name: str = "value") -> list[str]:
    """The fields with nanoseconds whose column has microseconds."""
    if pa.types.is_struct(kind) and pa.types.is_struct(stored):
        pairs = [
            (one.type, stored.field(one.name).type, f"{name}.{one.name}")
            for one in kind
            if stored.get_field_index(one.name) >= 0
        ]
    elif pa.types.is_list(kind) and pa.types.is_list(stored):
        pairs = [(kind.value_type, stored.value_type, f"{name}[]")]
    elif pa.types.is_map(kind) and pa.types.is_map(stored):
        pairs = [(kind.item_type, stored.item_type, f"{name}{{}}")]
    else:
        return [name] if is_in_nanoseconds(kind) and pa.types.is_timestamp(stored) else []
    return [found for pair in pairs for found in cut_fields(*pair)]


def times_of_day(kind: pa.DataType, name: str = "value") -> list[str]:
    """The fields of the type `time`."""
    if pa.types.is_struct(kind):
        parts = [(one.type, f"{name}.{one.name}") for one in kind]
    elif pa.types.is_list(kind):
        parts = [(kind.value_type, f"{name}[]")]
    elif pa.types.is_map(kind):
        parts = [(kind.item_type, f"{name}{{}}")]
    else:
        return [name] if pa.types.is_time(kind) else []
    return [found for part in parts for found in times_of_day(*part)]


def in_nanoseconds(kind: pa.DataType) -> pa.DataType:
    """The type with nanoseconds in its timestamps."""
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, in_nanoseconds(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(in_nanoseconds(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, in_nanoseconds(kind.item_type))
    return pa.timestamp("ns", tz=kind.tz) if pa.types.is_timestamp(kind) else kind


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


def grows_to(old: pa.DataType, new: pa.DataType) -> bool:
    """Returns whether a column of a type can become one for all values of another: by new fields and promotions."""
    return bool(_in_order(merged(old, new)) == _in_order(merged(new, merged(old, new))))


def _in_order(kind: pa.DataType) -> pa.DataType:
    """The type with the fields of each struct by name."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _in_order(one.type)) for one in sorted(kind, key=lambda one: one.name)])
    if pa.types.is_list(kind):
        return pa.list_(_in_order(kind.value_type))
    return kind


def grown(old: pa.Schema, new: pa.Schema) -> pa.Schema:
    """The columns of a table for rows of its schema and of another."""
    return pa.schema(list(merged(pa.struct(list(old)), pa.struct(list(new)))))


def _merged_field(old: pa.Field, new: pa.Field | None) -> pa.Field:
    return old if new is None else pa.field(old.name, merged(old.type, new.type), old.nullable)


def _is_promotion(old: pa.DataType, new: pa.DataType) -> bool:
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(new.scale == old.scale and new.precision > old.precision)
    return (old, new) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))
