"""Rows of Arrow as JSON texts without a loss: the values of JSON topics, and what the encoders of Avro and Protobuf take.

| type | JSON |
|---|---|
| binary | base64 |
| decimal | a number with all its digits |
| timestamp with a zone | text in UTC with Z |
| timestamp without a zone, date, time | text |
| map | object |
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from .arrow_kinds import is_list
from .misfit import Misfit

if TYPE_CHECKING:
    import msgspec

#: Seconds and days of the years 1 and 9999, those of Python's times.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
_FIRST_DAY, _LAST_DAY = _FIRST_S // 86_400, _LAST_S // 86_400
_PARTS = {"s": 1, "ms": 1000, "us": 1_000_000}
_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
_KEY_KINDS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer)
_PLAIN_KINDS = (
    *_KEY_KINDS, pa.types.is_boolean, pa.types.is_floating, pa.types.is_binary, pa.types.is_large_binary,
    pa.types.is_decimal, pa.types.is_date, pa.types.is_time, pa.types.is_null,
)  # fmt: skip


def check_json_type(kind: pa.DataType, name: str) -> None:
    """Raises Misfit for a column of a type that JSON has no form for."""
    if pa.types.is_struct(kind):
        names = [one.name for one in kind]
        if twice := [one for one in names if names.count(one) > 1]:
            raise Misfit(f"the column {name} has the field '{twice[0]}' {names.count(twice[0])} times")
        for field in kind:
            check_json_type(field.type, f"{name}.{field.name}")
    elif is_list(kind):
        check_json_type(kind.value_type, f"{name}[]")
    elif pa.types.is_map(kind):
        if not any(is_kind(kind.key_type) for is_kind in _KEY_KINDS):
            raise Misfit(f"the keys of the column {name} are {kind.key_type}; they can be strings or integers")
        check_json_type(kind.item_type, f"{name}{{}}")
    elif pa.types.is_timestamp(kind):
        if kind.unit not in _PARTS:
            raise Misfit(f"the column {name} is {kind}; timestamps can have microseconds at most")
    elif not any(is_kind(kind) for is_kind in _PLAIN_KINDS):
        raise Misfit(f"the column {name} is {kind}, which no format of values has")


def json_rows(values: pa.Array, name: str, *, is_for_schema: bool) -> list[bytes | None]:
    """The JSON of each row, None for a null row.

    `is_for_schema`: for an encoder of Avro or Protobuf, which takes "NaN" and fields that are null; without it, fields that
    are null are left out, as Spark's `to_json` does, and numbers that JSON has not are an error. Raises Misfit.
    """
    values = _in_utc(values)
    has_nulls = has_not_finite = False
    for path, part in _parts(values, name):
        has_nulls = has_nulls or part.null_count > 0
        _check_years(part, path)
        if pa.types.is_floating(part.type) and (bad := part.filter(pc.invert(pc.is_finite(part))).drop_null()):
            if not is_for_schema:
                raise Misfit(f"a row of the column {path} is {bad[0]}, which JSON has not")
            has_not_finite = True
    rows = values.to_pylist(maps_as_pydicts="strict")
    if has_not_finite:
        rows = [_with_texts(row) for row in rows]
    if has_nulls and not is_for_schema:
        rows = [_without_nulls(row, values.type) for row in rows]
    encode = _encoder().encode
    return [None if row is None else encode(row) for row in rows]


@cache
def _encoder() -> msgspec.json.Encoder:
    import msgspec

    return msgspec.json.Encoder(decimal_format="number")


def _parts(values: pa.Array, name: str) -> Iterator[tuple[str, pa.Array]]:
    """An array and those within it, with the names of their columns: values of null rows are none."""
    yield name, values
    kind = values.type
    if pa.types.is_struct(kind):
        for field, part in zip(kind, values.flatten(), strict=True):
            yield from _parts(part, f"{name}.{field.name}")
    elif is_list(kind):
        yield from _parts(values.flatten(), f"{name}[]")
    elif pa.types.is_map(kind):
        pairs = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
        yield from _parts(values.cast(pairs).flatten().flatten()[1], f"{name}{{}}")


def _check_years(part: pa.Array, name: str) -> None:
    if pa.types.is_timestamp(part.type):
        parts = _PARTS[part.type.unit]
        number, first, last = part.cast(pa.int64()), _FIRST_S * parts, (_LAST_S + 1) * parts - 1
    elif pa.types.is_date32(part.type):
        number, first, last = part.cast(pa.int32()), _FIRST_DAY, _LAST_DAY
    else:
        return
    bounds = pc.min_max(number).as_py()
    if bounds["min"] is not None and not first <= bounds["min"] <= bounds["max"] <= last:
        raise Misfit(f"a row of the column {name} is not within the years 1 to 9999")


def _in_utc(values: pa.Array) -> pa.Array:
    kind = _type_in_utc(values.type)
    return values if kind == values.type else values.cast(kind)


def _type_in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_type_in_utc(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type_in_utc(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_type_in_utc(kind.item_type)))
    return kind


def _with_texts(value: object) -> object:
    """A value with texts in place of numbers that JSON has not."""
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_FINITE.get(value, "NaN")
    if isinstance(value, dict):
        return {key: _with_texts(one) for key, one in value.items()}
    return [_with_texts(one) for one in value] if isinstance(value, list) else value


def _without_nulls(value: object, kind: pa.DataType) -> object:
    """A value without fields that are null. Maps and lists keep theirs."""
    if isinstance(value, list):
        return [_without_nulls(one, kind.value_type) for one in value]
    if not isinstance(value, dict):
        return value
    if pa.types.is_map(kind):
        return {key: _without_nulls(one, kind.item_type) for key, one in value.items()}
    fields = ((field.name, _without_nulls(value[field.name], field.type)) for field in kind)
    return {name: one for name, one in fields if one is not None}
