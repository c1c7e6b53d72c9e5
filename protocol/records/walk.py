"""Validation of the records of an uncompressed payload, without building record objects.

`walk` returns a `Walk`. A payload is WHOLE if it consists exactly of the counted records, and each record exactly of
its fields. Key and value have a length of -1 or more, a header's key is not null and is UTF-8, and numbers fit their
type. Java accepts more, but other clients fail there: they decode bits past the 32nd, lengths of -2 and attributes
over 127 differently, and raise an error for a header key that is not UTF-8. Wrong offsets, missing keys and timestamps
out of range are counted; the topic's rules decide on them.

The compiled walk of the kernel (folder kernel/) replaces this one if pip had a compiler or a wheel for the platform: some
0.01 us per record instead of 0.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..zigzag import encode_zigzag

if TYPE_CHECKING:
    from ..buffer import Buffer

try:
    from odradek_kernel import find_record as _kernel_find
    from odradek_kernel import walk_records as _kernel
except ImportError:  # pip had no compiler; the kernel may be of another version in a checkout.
    _kernel = _kernel_find = None

WHOLE = 0
BROKEN = 1
#: A record's length varint continues after five bytes. Apache Kafka has a different error for that in uncompressed
#: data.
ENDLESS_LENGTH = 2

_MOST_LENGTH_BYTES = 5
INT_MAX = (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
IS_COMPILED = _kernel is not None
#: Records that are walked on the event loop; a thread walks more. Either takes some 10 ms.
WALKED_AT_ONCE_RECORDS = 500_000 if IS_COMPILED else 15_000


class Walk(NamedTuple):
    """The result of a walk. The counts are valid only if `fault` is WHOLE."""

    fault: int
    #: The largest timestamp, or -1 if none is larger.
    max_timestamp: int
    #: Records whose offset delta is not their index.
    disordered: int
    #: Records without a key, if keys are required.
    keyless: int
    #: Other records whose timestamp is set and not between `earliest` and `latest`.
    out_of_range: int


class _Broken(Exception):
    pass


class _EndlessLength(_Broken):
    pass


def _raw_varint(data: bytes, pos: int, bits: int) -> tuple[int, int]:
    """Reads a varint of at most `bits` bits, without zigzag decoding. Returns (number, position after it)."""
    number = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        if shift + 7 > bits and byte >> (bits - shift):
            raise _Broken
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, pos
        shift += 7


def _length(data: bytes, pos: int) -> tuple[int, int]:
    """Reads a length; -1 for null."""
    number, pos = _raw_varint(data, pos, 32)
    size = number >> 1 ^ -(number & 1)
    if size < -1:
        raise _Broken
    return size, pos


def _after_headers(data: bytes, pos: int, stop: int) -> int:
    count, pos = _length(data, pos)
    if not 0 <= count <= stop - pos:
        raise _Broken
    for _ in range(count):
        size, pos = _length(data, pos)
        if size < 0:
            raise _Broken
        data[pos : pos + size].decode()
        size, pos = _length(data, pos + size)
        pos += max(size, 0)
        if pos > stop:
            raise _Broken
    return pos


def _records(data: bytes, count: int, most_bytes: int) -> Iterator[tuple[int, int, bool]]:
    """Yields (timestamp delta, offset delta, both without zigzag decoding; whether it has a key) of each record."""
    pos, end, most_size = 0, len(data), 2 * most_bytes
    for _ in range(count):
        size = data[pos]
        pos += 1
        if size > 127:
            more = data[pos]
            if more < 128:
                size += (more << 7) - 128
                pos += 1
            else:
                size, pos = _record_length(data, pos - 1)
        stop = pos + (size >> 1)
        if size & 1 or stop > end or size > most_size:
            raise _Broken
        if data[pos] > 127:
            raise _Broken
        delta = data[pos + 1]
        pos += 2
        if delta > 127:
            delta, pos = _raw_varint(data, pos - 1, 64)
        offset = data[pos]
        pos += 1
        if offset > 127:
            offset, pos = _raw_varint(data, pos - 1, 32)
        key = data[pos]
        pos += 1
        if key > 127:
            key, pos = _raw_varint(data, pos - 1, 32)
        if not key & 1:
            pos += key >> 1
        elif key > 1:
            raise _Broken
        value = data[pos]
        pos += 1
        if value > 127:
            more = data[pos]
            if more < 128:
                value += (more << 7) - 128
                pos += 1
            else:
                value, pos = _raw_varint(data, pos - 1, 32)
        if not value & 1:
            pos += value >> 1
        elif value > 1:
            raise _Broken
        pos = pos + 1 if not data[pos] else _after_headers(data, pos, stop)
        # `pos` only grows, so no earlier field was past the end either.
        if pos != stop:
            raise _Broken
        yield delta, offset, not key & 1
    if pos != end:
        raise _Broken


def _record_length(data: bytes, pos: int) -> tuple[int, int]:
    first = data[pos : pos + _MOST_LENGTH_BYTES]
    if len(first) == _MOST_LENGTH_BYTES and min(first) > 127:
        raise _EndlessLength
    return _raw_varint(data, pos, 32)


def iter_records(data: Buffer, count: int, base_timestamp: int) -> Iterator[tuple[int, bool]]:
    """Yields (timestamp, whether it has a key) of each record of a payload that is WHOLE."""
    for delta, _, has_key in _records(bytes(data), count, INT_MAX):
        yield _timestamp(base_timestamp, delta), has_key


def _timestamp(base: int, delta: int) -> int:
    """Returns the sum of a base and a zigzag delta in 64 bits, as in Java."""
    return (base + (delta >> 1 ^ -(delta & 1)) + (1 << 63)) % (1 << 64) - (1 << 63)


def pure_walk(
    buffer: Buffer,
    start: int,
    count: int,
    most_bytes: int,
    base: int,
    earliest: int,
    latest: int,
    needs_key: bool,
    releases_gil: bool = False,
) -> tuple[int, int, int, int, int]:
    """Implements `walk` in Python, with the same arguments. `releases_gil` is for the kernel and has no effect here."""
    # Indexing bytes is faster than indexing other buffers.
    data = bytes(memoryview(buffer)[start:])
    newest, disordered, keyless, out_of_range = -1, 0, 0, 0
    expected = previous = -2
    timestamp = 0
    try:
        for delta, offset, has_key in _records(data, count, most_bytes):
            expected += 2
            if offset != expected:
                disordered += 1
            if delta != previous:
                previous = delta
                timestamp = _timestamp(base, delta)
                newest = max(newest, timestamp)
            if needs_key and not has_key:
                keyless += 1
            elif not earliest <= timestamp <= latest and timestamp != -1:
                out_of_range += 1
    except _EndlessLength:
        return ENDLESS_LENGTH, newest, 0, 0, 0
    except (_Broken, IndexError, UnicodeDecodeError):
        return BROKEN, newest, 0, 0, 0
    return WHOLE, newest, disordered, keyless, out_of_range


#: The walk of the hot path: positional arguments, a plain tuple.
raw_walk: Callable[..., tuple[int, int, int, int, int]] = pure_walk if _kernel is None else _kernel


def walk(
    buffer: Buffer,
    start: int,
    count: int,
    base_timestamp: int,
    *,
    most_record_bytes: int = INT_MAX,
    earliest: int = LONG_MIN,
    latest: int = LONG_MAX,
    needs_key: bool = False,
    releases_gil: bool = False,
) -> Walk:
    """Walks the `count` records of `buffer` from `start` to its end. A record larger than `most_record_bytes` is
    BROKEN.

    `releases_gil`: set it in a separate thread; on the event loop, taking the lock back would wait for other threads.
    """
    found = raw_walk(buffer, start, count, most_record_bytes, base_timestamp, earliest, latest, needs_key, releases_gil)
    return tuple.__new__(Walk, found)


def renumbered(data: Buffer, count: int) -> bytes:
    """Returns a payload that is WHOLE, with offset deltas from 0 on, for a producer that numbered them otherwise."""
    source = bytes(data)
    pieces: list[bytes] = []
    pos = 0
    for number in range(count):
        size, body = _raw_varint(source, pos, 32)
        stop = body + (size >> 1)
        _, offset_at = _raw_varint(source, body + 1, 64)
        _, rest_at = _raw_varint(source, offset_at, 32)
        offset = encode_zigzag(number)
        length = encode_zigzag(offset_at - body + len(offset) + stop - rest_at)
        pieces += (length, source[body:offset_at], offset, source[rest_at:stop])
        pos = stop
    return b"".join(pieces)


def pure_find(data: Buffer, count: int, base: int, least_timestamp: int, least_offset: int) -> tuple[int, int] | None:
    """Implements `find_record` in Python."""
    try:
        for delta, offset, _ in _records(bytes(data), count, INT_MAX):
            number, timestamp = offset >> 1 ^ -(offset & 1), _timestamp(base, delta)
            if timestamp >= least_timestamp and number >= least_offset:
                return number, timestamp
    except (_Broken, IndexError, UnicodeDecodeError):
        pass  # A poisoned payload has no record to find.
    return None


#: (data, count, base timestamp, minimum timestamp, minimum offset) -> (offset, timestamp) of the first record that
#: satisfies both, or None. Offsets are deltas from the batch's first. The compiled version releases the GIL.
find_record: Callable[..., tuple[int, int] | None] = pure_find if _kernel_find is None else _kernel_find
