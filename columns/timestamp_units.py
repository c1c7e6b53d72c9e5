"""Timestamps in the unit of another type."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def floored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Timestamps of nanoseconds without the digits that a type of microseconds lacks."""
    is_finer = pa.types.is_timestamp(values.type) and values.type.unit == "ns"
    if is_finer and pa.types.is_timestamp(kind) and kind.unit == "us":
        number = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(False) // 1000  # Arrow's floor wraps at -2^63
        return pa.array(number, pa.timestamp("us", values.type.tz), mask=values.is_null().to_numpy(False))
    return values
