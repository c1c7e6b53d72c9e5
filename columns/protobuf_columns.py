"""The columns of a Protobuf message, of the arrays of ptars, and the rows that no column has.

Well-known types have columns of their own (protobuf_well_known.py); a message without fields is the text {} where it is
present.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .most_columns import MOST_COLUMNS, too_many_columns
from .protobuf_well_known import (
    DURATION,
    JSON_TYPES,
    TIMESTAMP,
    ColumnValues,
    Descriptor,
    durations,
    has_like_names,
    json_texts,
    timestamps,
)


def check_number_of_columns(message: Descriptor) -> None:
    """Raises InvalidScan for a message with more than MOST_COLUMNS columns at all levels."""
    if _number_of_columns(message, (), {}) > MOST_COLUMNS:
        raise too_many_columns("Protobuf")


def _number_of_columns(message: Descriptor, within: tuple[str, ...], counted: dict[str, int]) -> int:
    name = message.full_name
    if name in within or _is_replaced(message):
        return 0
    if name not in counted:
        inner = [one.message_type for one in message.fields if one.message_type is not None]
        counted[name] = len(message.fields) + sum(_number_of_columns(one, (*within, name), counted) for one in inner)
    return counted[name]


class ProtobufColumns:
    """Columns of the arrays of ptars. `unit`: of timestamps."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._plain: dict[str, bool] = {}

    def of_message(self, values: pa.Array, message: Descriptor, name: str) -> ColumnValues:
        if not pa.types.is_struct(values.type) or self._is_plain(message, ()):
            return ColumnValues(values, {})
        columns, fields = [], []
        bad: dict[int, str] = {}
        for number, field in enumerate(message.fields):
            path = f"{name}.{field.name}".lstrip(".")
            part = self._of_field(pc.struct_field(values, [number]), field, path)
            columns.append(part.values)
            fields.append(pa.field(field.name, part.values.type))
            bad = part.bad | bad
        mask = values.is_null() if values.null_count else None
        return ColumnValues(pa.StructArray.from_arrays(columns, fields=fields, mask=mask), bad)

    def has_repeated(self, values: pa.Array, message: Descriptor) -> bool:
        """Returns whether a map has a key twice, or a `oneof` two fields, at any level."""
        if not pa.types.is_struct(values.type):
            return False
        columns = {one.name: pc.struct_field(values, [at]) for at, one in enumerate(message.fields)}
        for choice in message.oneofs:
            valid = [columns[one.name].is_valid().cast(pa.int8()) for one in choice.fields]
            if len(valid) > 1 and pc.any(pc.greater(reduce(pc.add, valid), 1)).as_py():
                return True
        for field in message.fields:
            kind, column = field.message_type, columns[field.name]
            if kind is None or not len(column):
                continue
            if kind.GetOptions().map_entry:
                if _has_twice(column):
                    return True
            elif self.has_repeated(column.flatten() if pa.types.is_list(column.type) else column, kind):
                return True
        return False

    def _is_plain(self, message: Descriptor, within: tuple[str, ...]) -> bool:
        """Returns whether ptars has read all fields of a message, at all levels."""
        name = message.full_name
        if name in within:
            return True
        if name not in self._plain:
            inner = [one.message_type for one in message.fields if one.message_type is not None]
            are_plain = all(not _is_replaced(one) and self._is_plain(one, (*within, name)) for one in inner)
            self._plain[name] = are_plain and not has_like_names(message.fields)
        return self._plain[name]

    def _of_field(self, values: pa.Array, field: Descriptor, name: str) -> ColumnValues:
        kind = field.message_type
        if kind is None:
            return ColumnValues(values, {})
        if kind.GetOptions().map_entry:
            return self._of_map(values, kind, name)
        return self._of_list(values, kind, name) if pa.types.is_list(values.type) else self._of_one(values, kind, name)

    def _of_one(self, values: pa.Array, kind: Descriptor, name: str) -> ColumnValues:
        if kind.full_name == TIMESTAMP:
            return timestamps(values, self._unit, name)
        if kind.full_name == DURATION:
            return durations(values, name)
        if kind.full_name in JSON_TYPES:
            return json_texts(values, kind, name)
        if not kind.fields:
            return ColumnValues(pc.if_else(values.is_valid(), pa.scalar("{}"), pa.scalar(None, pa.string())), {})
        return self.of_message(values, kind, name)

    def _of_list(self, values: pa.Array, kind: Descriptor, name: str) -> ColumnValues:
        inner = self._of_one(values.flatten(), kind, f"{name}[]")
        made = pa.ListArray.from_arrays(_offsets(values), inner.values, mask=_mask(values))
        return ColumnValues(made, _of_parents(values, inner.bad))

    def _of_map(self, values: pa.Array, entry: Descriptor, name: str) -> ColumnValues:
        as_list = _as_list(values)
        flat = as_list.flatten()
        value = entry.fields_by_name["value"]
        inner = self._of_field(pc.struct_field(flat, [1]), value, f"{name}{{}}")
        keys = pc.struct_field(flat, [0])
        made = pa.MapArray.from_arrays(_offsets(as_list), keys, inner.values, mask=_mask(values))
        return ColumnValues(made, _of_parents(as_list, inner.bad))


def _has_twice(maps: pa.Array) -> bool:
    if (pc.max(pc.list_value_length(_as_list(maps))).as_py() or 0) < 2:
        return False
    flat = _as_list(maps)
    entries = pa.table({"map": pc.list_parent_indices(flat), "key": pc.struct_field(flat.flatten(), [0])})
    return bool(entries.group_by(["map", "key"]).aggregate([]).num_rows < entries.num_rows)


def _as_list(maps: pa.Array) -> pa.Array:
    return maps.cast(pa.list_(pa.struct([("key", maps.type.key_type), ("value", maps.type.item_type)])))


def _is_replaced(message: Descriptor) -> bool:
    return message.full_name in (TIMESTAMP, DURATION, *JSON_TYPES) or not message.fields


def _offsets(values: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _of_parents(values: pa.Array, inner: dict[int, str]) -> dict[int, str]:
    if not inner:
        return {}
    parents = pc.list_parent_indices(values)
    return {parents[row].as_py(): reason for row, reason in inner.items()}
