"""Protobuf's well-known types as columns.

| type | column |
|---|---|
| Timestamp | timestamp; the unit is the reader's: ns has the years 1678 to 2261, us has all, and cuts |
| Duration | decimal(21, 9), in seconds |
| Struct, Value, ListValue | the JSON text |
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .layout import Numbers

#: Objects of protobuf, which has no types: descriptors, and messages of descriptor.proto.
Descriptor: TypeAlias = Any
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
JSON_TYPES = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")
#: Seconds of a Timestamp: the years 1 to 9999.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
#: Seconds that all fractions of have a number of nanoseconds in 64 bits, neither of which is an infinity of DuckDB.
_LAST_NS_S = 9_223_372_035
#: Seconds of a Duration: 10,000 years.
_LAST_DURATION_S = 315_576_000_000
_NANOS = 1_000_000_000
_SECONDS = pa.decimal128(21, 9)


def has_like_names(fields: Iterable[Descriptor]) -> bool:
    """Returns whether names of fields differ only in case or underscores, at which ptars panics."""
    names = [one.name.replace("_", "").lower() for one in fields]
    return len(set(names)) < len(names)


class ColumnValues(NamedTuple):
    """`bad`: the rows of `values` that no column has, with the reasons."""

    values: pa.Array
    bad: dict[int, str]


def timestamps(values: pa.Array, unit: str, name: str) -> ColumnValues:
    seconds, nanos, is_valid = _numbers(values)
    is_time = (seconds >= _FIRST_S) & (seconds <= _LAST_S) & (nanos >= 0) & (nanos < _NANOS)
    fits = is_time & _is_within(seconds, _LAST_NS_S) if unit == "ns" else is_time
    bad = {}
    for row in np.flatnonzero(is_valid & ~fits).tolist():
        shown = f"{name} has {seconds[row]} seconds and {nanos[row]} nanos"
        bad[row] = (
            f"{shown}: a Timestamp has the years 1 to 9999 and nanos from 0 to 999999999"
            if not is_time[row]
            else f"{shown}: a timestamp in nanoseconds has the years 1678 to 2261"
        )
    seconds, nanos = np.where(fits, seconds, 0), np.where(fits, nanos, 0)
    number = seconds * _NANOS + nanos if unit == "ns" else seconds * 1_000_000 + nanos // 1000
    return ColumnValues(pa.array(number, pa.timestamp(unit, tz="UTC"), mask=~(is_valid & fits)), bad)


def durations(values: pa.Array, name: str) -> ColumnValues:
    seconds, nanos, is_valid = _numbers(values)
    fits = (
        _is_within(seconds, _LAST_DURATION_S)
        & _is_within(nanos, _NANOS - 1)
        & ((seconds == 0) | (nanos * np.sign(seconds) >= 0))
    )
    bad = {
        row: f"{name} has {seconds[row]} seconds and {nanos[row]} nanos: a Duration has {_LAST_DURATION_S} s, "
        "999999999 ns and one sign"
        for row in np.flatnonzero(is_valid & ~fits).tolist()
    }
    whole = pa.array(np.where(fits, seconds, 0)).cast(pa.decimal128(28, 9))
    parts = pa.array(np.where(fits, nanos, 0)).cast(pa.decimal128(19, 0))
    fractions = pa.Array.from_buffers(pa.decimal128(19, 9), len(parts), parts.buffers())
    made = pc.add(whole, fractions).cast(_SECONDS)
    return ColumnValues(pc.if_else(pa.array(is_valid & fits), made, pa.scalar(None, _SECONDS)), bad)


def json_texts(values: pa.Array, kind: Descriptor, name: str) -> ColumnValues:
    from google.protobuf import json_format, struct_pb2
    from google.protobuf.message import DecodeError

    made_of = getattr(struct_pb2, kind.name)
    texts: list[str | None] = []
    bad = {}
    for row, data in enumerate(values.to_pylist()):
        texts.append(None)
        if data is None:
            continue
        try:
            found = json_format.MessageToDict(made_of.FromString(data))
            texts[row] = json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (ValueError, DecodeError, json_format.SerializeToJsonError, RecursionError) as error:
            bad[row] = f"{name} is not JSON as a {kind.name} has: {str(error).partition(chr(10))[0]}"
    return ColumnValues(pa.array(texts, pa.string()), bad)


def _numbers(values: pa.Array) -> tuple[Numbers, Numbers, Numbers]:
    """The seconds and nanos of structs, and which are valid. Missing ones are 0."""
    parts = [pc.fill_null(pc.struct_field(values, [at]), 0).to_numpy(False).astype(np.int64) for at in range(2)]
    return parts[0], parts[1], values.is_valid().to_numpy(False)


def _is_within(numbers: Numbers, most: int) -> Numbers:
    return (numbers >= -most) & (numbers <= most)  # the absolute of -2^63 is itself
