"""The types that JSON is transformed to first, before Arrow casts it to those of a schema."""

from __future__ import annotations

import pyarrow as pa

from ..protocol.json_value import JsonValue
from .arrow_kinds import is_text
from .errors import InvalidScan
from .inference import MOST_LEVELS, is_nameable


def raw_type(kind: pa.DataType, level: int) -> pa.DataType:
    """The type that JSON is transformed to first: numbers that could be rounded, and times, are text until they are cast."""
    if level > MOST_LEVELS:
        raise InvalidScan(f"a schema of more than {MOST_LEVELS} levels")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, raw_type(one.type, level + 1)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(raw_type(kind.value_type, level + 1))
    if pa.types.is_floating(kind):
        return pa.float64()
    is_shown = is_text(kind) or pa.types.is_boolean(kind)
    # Arrow reads no times of day and no durations from text.
    checks = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp)
    is_cast = any(check(kind) for check in checks)
    if is_shown or is_cast:
        return pa.string()
    raise InvalidScan(f"JSON values cannot be of the type {kind}")


def exact_below(kind: pa.DataType) -> int:
    """The number below which a floating type has each integer."""
    if pa.types.is_float16(kind):
        return 1 << 11
    return 1 << 24 if pa.types.is_float32(kind) else 1 << 53


def duckdb_structure(kind: pa.DataType) -> JsonValue:
    if pa.types.is_struct(kind):
        return {one.name: duckdb_structure(one.type) for one in kind}
    if pa.types.is_list(kind):
        return [duckdb_structure(kind.value_type)]
    return "DOUBLE" if pa.types.is_floating(kind) else "VARCHAR"


def are_nameable(kind: pa.DataType) -> bool:
    """Returns whether DuckDB has a struct with these names, which it compares without case."""
    if pa.types.is_list(kind):
        return are_nameable(kind.value_type)
    if not pa.types.is_struct(kind):
        return True
    names = [one.name for one in kind]
    are_distinct = len({name.lower() for name in names}) == len(names)
    return are_distinct and all(map(is_nameable, names)) and all(are_nameable(one.type) for one in kind)
