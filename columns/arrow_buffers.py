"""Arrow's columns over buffers that the compiled loop fills."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..protocol.records.batch import NO_TIMESTAMP
from . import kernel, layout
from .layout import Numbers
from .record_schema import HEADERS_TYPE


class RecordBuffers:
    """Buffers of Arrow columns for at most `capacity` rows from at most `payload_bytes`."""

    def __init__(self, capacity: int, payload_bytes: int, wanted: int) -> None:
        self._wanted = wanted
        self._offsets, self._timestamps = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        self._types = np.empty(capacity, np.int32)
        self._key_bytes = _bytes(payload_bytes if wanted & layout.KEYS else 0)
        self._value_bytes = _bytes(payload_bytes if wanted & layout.VALUES else 0)
        with_keys, with_values = (capacity if wanted & bit else 0 for bit in (layout.KEYS, layout.VALUES))
        self._key_ends, self._key_validity = _ends(with_keys), _bits(with_keys)
        self._value_ends, self._value_validity = _ends(with_values), _bits(with_values)
        # A header takes at least two bytes.
        has_headers = bool(wanted & layout.HEADERS)
        pairs = payload_bytes // 2 if has_headers else 0
        self._header_ends = _ends(capacity if has_headers else 0)
        self._pair_ends = np.empty((pairs + 1, 2), np.int32)
        self._pair_ends[0] = 0
        self._pair_validity = _bits(pairs)
        self._pair_keys = _bytes(payload_bytes if has_headers else 0)
        self._pair_values = _bytes(payload_bytes if has_headers else 0)
        self._totals = np.zeros(layout.TOTALS, np.int64)

    @property
    def rows(self) -> int:
        return int(self._totals[layout.ROWS])

    def fill(self, data: Numbers, batches: Numbers, faults: Numbers, bounds: Numbers) -> None:
        kernel.decode_records(
            data, batches, faults, bounds, self._wanted, self._offsets, self._timestamps, self._types,
            self._key_ends, self._key_validity, _writable(self._key_bytes),
            self._value_ends, self._value_validity, _writable(self._value_bytes),
            self._header_ends, self._pair_ends, self._pair_validity,
            _writable(self._pair_keys), _writable(self._pair_values), self._totals,
        )  # fmt: skip

    def array(self, name: str) -> pa.Array:
        rows, totals = self.rows, self._totals
        if name == "offset":
            return numbers(self._offsets[:rows], pa.int64())
        if name == "timestamp":
            stamps = self._timestamps[:rows]
            missing = stamps == NO_TIMESTAMP
            return numbers(stamps, pa.timestamp("ms", tz="UTC"), missing if missing.any() else None)
        if name == "timestamp_type":
            return numbers(self._types[:rows], pa.int32())
        if name == "key":
            size, nulls = int(totals[layout.KEY_BYTES]), int(totals[layout.NULL_KEYS])
            return _binary(self._key_ends[: rows + 1], self._key_bytes, size, self._key_validity, nulls)
        if name == "value":
            size, nulls = int(totals[layout.VALUE_BYTES]), int(totals[layout.NULL_VALUES])
            return _binary(self._value_ends[: rows + 1], self._value_bytes, size, self._value_validity, nulls)
        return self._headers()

    def _headers(self) -> pa.Array:
        totals, rows = self._totals, self.rows
        pairs = int(totals[layout.HEADER_ROWS])
        key_ends, value_ends = (np.ascontiguousarray(self._pair_ends[: pairs + 1, one]) for one in (0, 1))
        keys = _binary(key_ends, self._pair_keys, int(totals[layout.HEADER_KEY_BYTES]), None, 0)
        values = _binary(value_ends, self._pair_values, int(totals[layout.HEADER_VALUE_BYTES]), self._pair_validity, -1)
        fields = [HEADERS_TYPE.value_type.field(0), HEADERS_TYPE.value_type.field(1)]
        structs = pa.StructArray.from_arrays([_texts(keys), values], fields=fields)
        ends = pa.py_buffer(self._header_ends[: rows + 1])
        return pa.ListArray.from_buffers(HEADERS_TYPE, rows, [None, ends], 0, 0, [structs])


def numbers(values: Numbers, kind: pa.DataType, nulls: Numbers | None = None) -> pa.Array:
    """An array over the memory of numbers. pa.array() imports pandas, which takes half a second and more."""
    bits = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])


def scalar(number: int, kind: pa.DataType) -> pa.Scalar:
    """A number as Arrow's functions take it: one of Python, and pa.scalar(), import pandas, too."""
    return numbers(np.array([number], np.int64), pa.int64()).cast(kind)[0]


def constant_text(text: str, rows: int) -> pa.Array:
    encoded = text.encode()
    ends = np.arange(0, (rows + 1) * len(encoded), len(encoded), dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(encoded * rows))


def _texts(keys: pa.Array) -> pa.Array:
    """Header keys as text. Java's clients decode bytes that are not UTF-8 with replacements, and so does this."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())


def _bytes(size: int) -> pa.Buffer:
    # Arrow's pool keeps pages that the system would hand out zeroed again for each buffer of this size.
    return pa.allocate_buffer(size, resizable=True)


def _writable(buffer: pa.Buffer) -> Numbers:
    return np.frombuffer(buffer, np.uint8) if buffer.size else np.empty(0, np.uint8)


def _ends(rows: int) -> Numbers:
    made = np.empty(rows + 1, np.int32)
    made[0] = 0
    return made


def _bits(rows: int) -> Numbers:
    return np.empty((rows + 7) // 8, np.uint8)


def _binary(ends: Numbers, data: pa.Buffer, size: int, validity: Numbers | None, nulls: int) -> pa.Array:
    bits = pa.py_buffer(validity) if validity is not None and nulls else None
    if size < data.size:
        data.resize(size, shrink_to_fit=True)
    return pa.BinaryArray.from_buffers(pa.binary(), len(ends) - 1, [bits, pa.py_buffer(ends), data], nulls)
