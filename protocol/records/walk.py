"""The walk over the records of an uncompressed payload: checks that they are what their batch says, and builds none.

`walk` returns a `Walk`. A payload is WHOLE when as many records as counted tile it exactly, and the fields of each tile
the record: key and value have a length of -1 or more, a header's key is there and is UTF-8, and numbers fit their type.
Java takes more, but other clients stop there: they read bits past the 32nd, lengths of -2 and attributes over 127
otherwise, and raise an error for a header's key that is no text. The order of offsets, missing
keys and timestamps out of range are counted: the topic's rules judge them.

The compiled walk of the optional distribution `odradek-kernel` (folder kernel/) takes the place of the one here where it
is installed: some 0.01 us a record instead of 0.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..varint import Buffer, encode_zigzag

try:
    from odradek_kernel import find as _kernel_find
    from odradek_kernel import walk as _kernel
except ImportError:  # It is optional.
    _kernel = _kernel_find = None

WHOLE = 0
BROKEN = 1
#: The length of a record goes on after five bytes. Apache Kafka has another error for that where nothing is compressed.
ENDLESS_LENGTH = 2

_MOST_LENGTH_BYTES = 5
INT_MAX = (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
IS_COMPILED = _kernel is not None
#: Records that the loop walks at once; a thread walks more. Either takes some 10 ms.
WALKED_AT_ONCE_RECORDS = 500_000 if IS_COMPILED else 15_000


class Walk(NamedTuple):
    """What the records of a payload are. The counts are of no meaning unless `fault` is WHOLE."""

    fault: int
    #: Of all records, or -1 where none is larger.
    max_timestamp: int
    #: Records whose offset is not their number.
    disordered: int
    #: Records without a key, where keys are needed.
    keyless: int
    #: The others whose timestamp is known and not between `earliest` and `latest`.
    out_of_range: int


class _Broken(Exception):
    pass


class _EndlessLength(_Broken):
    pass


def _raw_varint(data: bytes, pos: int, bits: int) -> tuple[int, int]:
    """A varint of at most `bits` bits, still zigzag: (number, position after it)."""
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
    """The length of what follows; -1 for null."""
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
    """(timestamp delta, offset delta, both still zigzag; whether it has a key) of each record."""
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
        # `pos` only grows: no field before was past the end either.
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
    """(timestamp, whether it has a key) of each record of a payload that is WHOLE."""
    for delta, _, has_key in _records(bytes(data), count, INT_MAX):
        yield _timestamp(base_timestamp, delta), has_key


def _timestamp(base: int, delta: int) -> int:
    """The sum of a base and a zigzag delta in 64 bits, as Java's."""
    return (base + (delta >> 1 ^ -(delta & 1)) + (1 << 63)) % (1 << 64) - (1 << 63)


def pure_walk(
    buffer: Any,
    start: int,
    count: int,
    most_bytes: int,
    base: int,
    earliest: int,
    latest: int,
    needs_key: bool,
    releases_gil: bool = False,
) -> tuple[int, int, int, int, int]:
    """The walk in Python; `walk` says what its arguments are. `releases_gil` is the kernel's, and does nothing here."""
    # Indexing bytes is faster than indexing any other buffer.
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


#: The walk of the hot path: arguments by position, a bare tuple.
raw_walk: Callable[..., tuple[int, int, int, int, int]] = pure_walk if _kernel is None else _kernel


def walk(
    buffer: Any,
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
    """Walks the `count` records of `buffer` from `start` to its end. One larger than `most_record_bytes` is BROKEN.

    `releases_gil`: for a thread of its own; the loop would wait for the threads that took the lock meanwhile.
    """
    found = raw_walk(buffer, start, count, most_record_bytes, base_timestamp, earliest, latest, needs_key, releases_gil)
    return tuple.__new__(Walk, found)


def renumbered(data: Buffer, count: int) -> bytes:
    """A payload that is WHOLE, with offsets from 0 on: the records of a producer that counted otherwise."""
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
    """`find_record` in Python."""
    try:
        for delta, offset, _ in _records(bytes(data), count, INT_MAX):
            number, timestamp = offset >> 1 ^ -(offset & 1), _timestamp(base, delta)
            if timestamp >= least_timestamp and number >= least_offset:
                return number, timestamp
    except (_Broken, IndexError, UnicodeDecodeError):
        pass  # A poisoned payload has nothing that could be found.
    return None


#: (data, count, base timestamp, least timestamp, least offset) -> (offset, timestamp) of the first record that has both,
#: or None. Offsets are differences from the batch's first. The compiled one leaves the interpreter's lock to others.
find_record: Callable[..., tuple[int, int] | None] = pure_find if _kernel_find is None else _kernel_find
