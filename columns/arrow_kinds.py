"""Kinds of Arrow types, by what their values mean: predicates for checks of columns against schemas."""

from __future__ import annotations

import pyarrow as pa


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def is_exact_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) or pa.types.is_integer(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(is_exact_number(kind) or pa.types.is_floating(kind))


def is_moment(kind: pa.DataType) -> bool:
    """Returns whether a type has timestamps with a zone."""
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


def is_local_time(kind: pa.DataType) -> bool:
    """Returns whether a type has timestamps without a zone."""
    return bool(pa.types.is_timestamp(kind) and kind.tz is None)


def is_small_float(kind: pa.DataType) -> bool:
    """Returns whether a float of 32 bits has all numbers of a type."""
    return kind in (pa.float16(), pa.float32(), pa.int8(), pa.int16())


def is_double(kind: pa.DataType) -> bool:
    """Returns whether a float of 64 bits has all numbers of a type."""
    return kind in (pa.float16(), pa.float32(), pa.float64(), pa.int8(), pa.int16(), pa.int32())
