"""Compiled loops over the bytes of record batches: headers into rows of numbers, records into the buffers of Arrow columns.

The bytes are untrusted. Every read is behind a comparison with the end of the record, of the batch or of the buffer, and
every write is behind one with the end of its array: numba checks no index itself. Whatever does not parse is a fault of
its batch; a batch with a fault adds no row.

numba compiles a function at its first call, in some seconds, and keeps the result beside this file or in the user's cache,
for all later processes. Where it can write to neither, each process compiles for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from ..protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC
from .layout import (
    APPEND_TIME,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BROKEN,
    COUNT,
    CRC,
    END_DELTA,
    END_OF_BUFFER,
    FIRST_OFFSET,
    FIRST_TIMESTAMP,
    HEADER_KEY_BYTES,
    HEADER_ROWS,
    HEADER_VALUE_BYTES,
    HEADERS,
    IS_APPEND_TIME,
    KEY_BYTES,
    KEYS,
    LAST_DELTA,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    NO_BATCH,
    NO_SPACE,
    NULL_KEYS,
    NULL_VALUES,
    OUT_OF_ORDER,
    POSITION,
    PRODUCER_ID,
    RECORDS,
    ROWS,
    ROWS_FULL,
    SIZE,
    START,
    STOP,
    VALUE_BYTES,
    VALUES,
    WHOLE,
)

F = TypeVar("F", bound=Callable[..., object])
#: Types and values of numba and LLVM, which have no annotations.
Value = Any
#: Arrays of numpy, and pointers to their first elements: numba infers a type for each call.
Array = Any


def _compiled(function: F, **options: str) -> F:
    settings = {"nogil": True, "boundscheck": False, "error_model": "numpy", **options}
    try:
        made: F = numba.njit(cache=True, **settings)(function)
    except RuntimeError:  # numba has no folder to write to: a read-only installation, and a user without a home
        made = numba.njit(**settings)(function)
    return made


def _inlined(function: F) -> F:
    return _compiled(function, inline="always")


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(typingctx: Value, array: Value) -> Value:
    """The first element of an array, for functions that run for each record: an array as an argument has its references
    counted by atomic operations, which together take longer than the record. The caller keeps the array.
    """

    def build(context: Value, builder: Value, signature: Value, arguments: Value) -> Value:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    if array.layout != "C":
        return None  # its elements do not follow each other
    return types.CPointer(array.dtype)(array), build  # type: ignore[attr-defined]


@_compiled
def _int32(data: Array, at: int) -> Value:
    number = np.uint32(data[at]) << np.uint32(24) | np.uint32(data[at + 1]) << np.uint32(16)
    number |= np.uint32(data[at + 2]) << np.uint32(8) | np.uint32(data[at + 3])
    return np.int64(np.int32(number))


@_compiled
def _int64(data: Array, at: int) -> Value:
    high, low = np.uint64(_int32(data, at)), np.uint64(np.uint32(_int32(data, at + 4)))
    return np.int64(high << np.uint64(32) | low)


@_compiled
def walk_headers(
    data: Array, start: int, stop: int, file_position: int, least_offset: int, whole: bool, rows: Array
) -> Value:
    """Reads the headers of the batches of `data` from `start` on. Returns (rows, position after the last one, result).

    `file_position`: of data[0]; rows have positions in the file, the result has one in `data`. `whole`: only batches that
    end in `data` count; without it the last one may end behind it, and so may the position.
    """
    source, position, count, expected = _pointer(data), start, 0, least_offset
    while True:
        if stop - position < HEADER_BYTES:
            return count, position, END_OF_BUFFER
        if count >= rows.shape[0]:
            return count, position, ROWS_FULL
        length, delta = _int32(source, position + 8), _int32(source, position + 23)
        size = length + LOG_OVERHEAD
        if source[position + 16] != MAGIC or size < HEADER_BYTES:
            return count, position, NO_BATCH
        base_offset, records = _int64(source, position), _int32(source, position + 57)
        if base_offset < expected or delta < 0 or base_offset > np.int64(0x7FFFFFFF00000000) or records < 0:
            return count, position, OUT_OF_ORDER
        if whole and size > stop - position:
            return count, position, END_OF_BUFFER
        rows[count, POSITION] = file_position + position
        rows[count, SIZE] = size
        rows[count, BASE_OFFSET] = base_offset
        rows[count, LAST_DELTA] = delta
        rows[count, BASE_TIMESTAMP] = _int64(source, position + 27)
        rows[count, MAX_TIMESTAMP] = _int64(source, position + 35)
        rows[count, PRODUCER_ID] = _int64(source, position + 43)
        rows[count, ATTRIBUTES] = np.int64(source[position + 21]) << 8 | np.int64(source[position + 22])
        rows[count, COUNT] = records
        rows[count, CRC] = _int32(source, position + 17) & 0xFFFFFFFF
        rows[count, LEADER_EPOCH] = _int32(source, position + 12)
        expected = base_offset + delta + 1
        count += 1
        position += size


@_inlined
def _varint(data: Array, position: int, stop: int, bits: int) -> Value:
    """Returns (number, position after it); the position is -1 where no number ends before `stop`."""
    if position >= stop:
        return np.int64(0), np.int64(-1)
    byte = np.uint64(data[position])
    position += 1
    raw = byte & np.uint64(0x7F)
    shift = np.uint64(7)
    while byte > np.uint64(0x7F):
        if position >= stop or shift >= np.uint64(bits):
            return np.int64(0), np.int64(-1)
        byte = np.uint64(data[position])
        position += 1
        raw |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
    return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), position


@intrinsic  # type: ignore[untyped-decorator]
def _copy(typingctx: Value, source: Value, at: Value, size: Value, target: Value, to: Value) -> Value:
    """Copies bytes as memcpy does: seven times as fast as a slice is assigned. The caller has checked both ranges."""

    def build(context: Value, builder: Value, signature: Value, arguments: Value) -> Value:
        source, at, size, target, to = arguments
        cgutils.raw_memcpy(builder, builder.gep(target, [to]), builder.gep(source, [at]), size, 1)
        return context.get_dummy_value()

    return types.void(source, at, size, target, to), build


@_compiled
def _headers(
    data: Array, position: int, stop: int, wanted: bool, at: Array, ends: Array, validity: Array, keys: Array, values: Array,
    room: Array,
) -> Value:  # fmt: skip
    """Reads the headers of one record. Returns the position after them, -1 where they do not parse, -2 without room.

    `at`: (headers, bytes of their keys, bytes of their values) so far, which it brings up to date. `room`: the most of each.
    """
    count, position = _varint(data, position, stop, 35)
    if position < 0 or count < 0 or count > stop - position:
        return np.int64(-1)
    for _ in range(count):
        size, position = _varint(data, position, stop, 35)
        if position < 0 or size < 0 or size > stop - position:
            return np.int64(-1)
        key_at, key_size = position, size
        size, position = _varint(data, position + size, stop, 35)
        if position < 0 or size > stop - position:
            return np.int64(-1)
        if wanted:
            row = at[0]
            if row >= room[0] or at[1] + key_size > room[1] or at[2] + max(size, 0) > room[2]:
                return np.int64(-2)
            _copy(data, key_at, key_size, keys, at[1])
            at[1] += key_size
            if size >= 0:
                _copy(data, position, size, values, at[2])
                at[2] += size
                validity[row >> 3] |= np.uint8(1) << np.uint8(row & 7)
            else:
                validity[row >> 3] &= ~(np.uint8(1) << np.uint8(row & 7))
            ends[2 * row + 2], ends[2 * row + 3] = at[1], at[2]
            at[0] = row + 1
        position += max(size, 0)
    return position


@_compiled
def _fields(data: Array, position: int, end: int) -> Value:
    """Reads a record up to its headers. Returns (end of the record, timestamp delta, offset delta, position of the key, its
    size, position of the value, its size); the first is -1 where it does not parse.
    """
    none = np.int64(-1)
    size, position = _varint(data, position, end, 35)
    if position < 0 or size < 1 or size > end - position:
        return none, none, none, none, none, none, none
    stop = position + size
    delta, position = _varint(data, position + 1, stop, 70)
    if position < 0:
        return none, none, none, none, none, none, none
    offset_delta, position = _varint(data, position, stop, 35)
    if position < 0:
        return none, none, none, none, none, none, none
    key_size, position = _varint(data, position, stop, 35)
    if position < 0 or key_size > stop - position:
        return none, none, none, none, none, none, none
    key_at = position
    value_size, position = _varint(data, position + max(key_size, 0), stop, 35)
    if position < 0 or value_size > stop - position:
        return none, none, none, none, none, none, none
    return stop, delta, offset_delta, key_at, key_size, position, value_size


@_compiled
def _put(
    data: Array, at: int, size: int, row: int, end: int, ends: Array, validity: Array, target: Array, room: int
) -> Value:
    """Appends bytes of a row, or null for a negative size. Returns the end of the bytes so far, or -1 without room."""
    if size < 0:
        validity[row >> 3] &= ~(np.uint8(1) << np.uint8(row & 7))
    else:
        if size > room - end:
            return np.int64(-1)
        _copy(data, at, size, target, end)
        end += size
        validity[row >> 3] |= np.uint8(1) << np.uint8(row & 7)
    ends[row + 1] = end
    return end


@_compiled
def decode_records(
    data: Array, batches: Array, faults: Array, bounds: Array, columns: int, offsets: Array, timestamps: Array, types: Array,
    key_ends: Array, key_validity: Array, keys: Array, value_ends: Array, value_validity: Array, values: Array,
    header_ends: Array, pair_ends: Array, pair_validity: Array, pair_keys: Array, pair_values: Array, totals: Array,
) -> None:  # fmt: skip
    """Decodes the records of `batches`, whose payloads are in `data`, into the buffers of columns.

    `bounds`: first and last offset, first and last timestamp, all inclusive: other records are checked and left out.
    `faults` gets WHOLE, BROKEN or NO_SPACE for each batch. Ends are those of Arrow: one more than rows, from 0.
    """
    row, key_end, value_end, null_keys, null_values = 0, 0, 0, 0, 0
    at = np.zeros(3, np.int64)
    source = _pointer(data)
    at_pairs, to_pairs = _pointer(at), (_pointer(pair_ends), _pointer(pair_validity), _pointer(pair_keys))
    room = (pair_ends.shape[0] - 1, pair_keys.shape[0], pair_values.shape[0])
    to_keys = (_pointer(key_ends), _pointer(key_validity), _pointer(keys))
    to_values = (_pointer(value_ends), _pointer(value_validity), _pointer(values))
    for number in range(batches.shape[0]):
        position, end = batches[number, START], batches[number, STOP]
        append_time, is_appended = batches[number, APPEND_TIME], batches[number, IS_APPEND_TIME] != 0
        before = (row, key_end, value_end, null_keys, null_values, at[0], at[1], at[2])
        fault, previous = WHOLE, np.int64(-1)
        if position < 0 or end > data.shape[0] or position > end:
            faults[number] = BROKEN
            continue
        for _ in range(batches[number, RECORDS]):
            stop, delta, offset_delta, key_at, key_size, value_at, value_size = _fields(source, position, end)
            if stop < 0 or offset_delta <= previous or offset_delta > batches[number, END_DELTA]:
                fault = BROKEN
                break
            previous = offset_delta
            offset = batches[number, FIRST_OFFSET] + offset_delta
            timestamp = append_time if is_appended else batches[number, FIRST_TIMESTAMP] + delta
            kept = bounds[0] <= offset <= bounds[1] and bounds[2] <= timestamp <= bounds[3]
            position = value_at + max(value_size, 0)
            if position < stop and source[position] == 0:
                position += 1
            else:
                wanted = columns & HEADERS != 0 and kept
                position = _headers(source, position, stop, wanted, at_pairs, *to_pairs, _pointer(pair_values), room)
            if position != stop:
                fault = NO_SPACE if position == -2 else BROKEN
                break
            if not kept:
                continue
            if row >= offsets.shape[0]:
                fault = NO_SPACE
                break
            offsets[row], timestamps[row], types[row] = offset, timestamp, is_appended
            if columns & KEYS:
                key_end = _put(source, key_at, key_size, row, key_end, *to_keys, keys.shape[0])
                null_keys += key_size < 0
            if columns & VALUES:
                value_end = _put(source, value_at, value_size, row, value_end, *to_values, values.shape[0])
                null_values += value_size < 0
            if key_end < 0 or value_end < 0:
                fault = NO_SPACE
                break
            if columns & HEADERS:
                header_ends[row + 1] = at[0]
            row += 1
        faults[number] = fault = BROKEN if fault == WHOLE and position != end else fault
        if fault != WHOLE:
            row, key_end, value_end, null_keys, null_values, at[0], at[1], at[2] = before
            if fault == NO_SPACE:
                break
    totals[ROWS], totals[KEY_BYTES], totals[VALUE_BYTES] = row, key_end, value_end
    totals[HEADER_ROWS], totals[HEADER_KEY_BYTES], totals[HEADER_VALUE_BYTES] = at[0], at[1], at[2]
    totals[NULL_KEYS], totals[NULL_VALUES] = null_keys, null_values
