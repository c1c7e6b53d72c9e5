"""Records of a batch's payload from rows of Arrow columns, and the partitions of keys: by the kernel, or in Python."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from ..protocol.murmur2 import partition_of
from ..protocol.zigzag import encode_zigzag

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from ..protocol.buffer import Buffer

try:  # an installation without a compiler lacks it
    from odradek_kernel import encode_rows as _encode
    from odradek_kernel import partitions_of_keys as _partitions
except ImportError:
    _encode = _partitions = None

#: Numbers of 32 or 64 bits in a row.
Numbers: TypeAlias = "npt.NDArray[np.int32] | npt.NDArray[np.int64]"
#: A buffer of a column; None for a column that is not there.
Column: TypeAlias = "Buffer | pa.Buffer | Numbers | None"
Columns: TypeAlias = tuple[Column, ...]
#: Hashes of keys: murmur2 as in Java, crc32 as in librdkafka. NO_PARTITION: the key decides nothing.
JAVA, LIBRDKAFKA = 0, 1
NO_PARTITION = -1


def encode_rows_in_python(
    out: bytearray | memoryview,
    size: int,
    records: int,
    rows: Numbers,
    first: int,
    base_timestamp: int,
    columns: Columns,
) -> tuple[int, int, int, int]:
    """Appends the records of rows[first:] to a payload, until one has no room.

    `out` has `size` bytes of `records` records. `rows`: numbers of 32 bits. `columns`: buffers of timestamps (64 bits), and
    of ends (32 bits), validity and bytes of keys and of values, of the ends of the rows' headers, and of keys and values of
    headers; None without. Returns the number of rows, the size after them, the bytes that the next record needs (0 when all
    rows are in), and the largest timestamp of the rows. Raises ValueError for a row outside of the columns.
    """
    stamps, headers = _numbers(columns[0], "q"), _numbers(columns[7], "i")
    keys, values = _Texts(columns[1:4]), _Texts(columns[4:7])
    pair_keys, pair_values = _Texts(columns[8:11]), _Texts(columns[11:14])
    chosen = _numbers(rows, "i")
    assert chosen is not None
    newest, index = 0, first
    for index in range(first, len(chosen)):
        row = chosen[index]
        try:
            stamp = base_timestamp if stamps is None else stamps[row]
            pieces = [
                b"\0",
                encode_zigzag(stamp - base_timestamp),
                encode_zigzag(records),
                _text(keys[row]),
                _text(values[row]),
            ]
            pairs = range(0) if headers is None else range(headers[row], headers[row + 1])
            pieces.append(encode_zigzag(len(pairs)))
            for pair in pairs:
                pieces += (_text(pair_keys[pair] or b""), _text(pair_values[pair]))
        except IndexError:
            raise ValueError("a row is not within the columns") from None
        body = b"".join(pieces)
        record = encode_zigzag(len(body)) + body
        if len(record) > len(out) - size:
            return index - first, size, len(record), newest
        out[size : size + len(record)] = record
        size, records = size + len(record), records + 1
        newest = max(newest, stamp) if index > first else stamp
    return len(chosen) - first, size, 0, newest


def partitions_of_keys_in_python(out: Numbers, keys: Columns, partitions: int, kind: int) -> None:
    """Writes the partition of each key (32 bits) into `out`, NO_PARTITION for null, and for b"" by librdkafka's hash."""
    texts, found = _Texts(keys), memoryview(out.data).cast("B").cast("i")
    for row in range(len(found)):
        try:
            key = texts[row]
        except IndexError:
            raise ValueError("the keys are not within their bytes") from None
        if key is None or (not key and kind == LIBRDKAFKA):
            found[row] = NO_PARTITION
        elif kind == LIBRDKAFKA:
            found[row] = zlib.crc32(key) % partitions
        else:
            found[row] = partition_of(key, partitions)


def _bytes_of(buffer: Column) -> memoryview[int] | None:
    """The bytes of a buffer; each kind of it has the protocol, which not every type says."""
    return None if buffer is None else memoryview(cast("bytes", buffer)).cast("B")


class _Texts:
    """A column of bytes by its buffers of ends, validity and bytes."""

    def __init__(self, buffers: Columns) -> None:
        self._ends = _numbers(buffers[0], "i")
        self._validity = _bytes_of(buffers[1])
        self._bytes = _bytes_of(buffers[2]) or memoryview(b"")

    def __getitem__(self, row: int) -> bytes | None:
        if self._ends is None or (self._validity is not None and not self._validity[row >> 3] >> (row & 7) & 1):
            return None
        first, end = self._ends[row], self._ends[row + 1]
        if not 0 <= first <= end <= len(self._bytes):
            raise IndexError
        return bytes(self._bytes[first:end])


def _numbers(buffer: Column, kind: Literal["i", "q"]) -> memoryview[int] | None:
    view = _bytes_of(buffer)
    if view is None:
        return None
    width = 8 if kind == "q" else 4
    return view[: len(view) // width * width].cast(kind)


def _text(content: bytes | None) -> bytes:
    return encode_zigzag(-1) if content is None else encode_zigzag(len(content)) + content


encode_rows = encode_rows_in_python if _encode is None else _encode
partitions_of_keys = partitions_of_keys_in_python if _partitions is None else _partitions
