"""Compression of record batches.

The libraries that do the work are loaded with the first compressed batch (codecs.py).

The codecs of record batches, and their limits.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from ..varint import Buffer

if TYPE_CHECKING:
    from mmap import mmap

    #: Takes decompressed bytes.
    Writable = memoryview | bytearray | mmap


class Compression(IntEnum):
    """The low three bits of a batch's attributes; the lower-case names are those of `compression.type`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


#: The maximum decompressed size of one batch's records, for producers, the cleaner and coordinators alike. Producers
#: send batches of about a megabyte. Text that compresses a hundredfold fits; a decompression bomb costs at most this
#: memory.
MAX_DECOMPRESSED_BYTES = 128 << 20

#: The levels of `compression.<codec>.level`: (lowest, highest, default), as in Kafka (KIP-390).
LEVELS = {Compression.GZIP: (1, 9, -1), Compression.LZ4: (1, 17, 9), Compression.ZSTD: (-131072, 22, 3)}


__all__ = ["LEVELS", "MAX_DECOMPRESSED_BYTES", "Compression", "compress", "decompress", "decompress_into", "unpack"]


_codecs: Any = None


def _loaded() -> Any:
    global _codecs
    from . import codecs

    _codecs = codecs
    return codecs


def compress(compression: Compression, data: Buffer, level: int | None = None) -> Buffer:
    """Returns `data` compressed. `level` is as in `compression.<codec>.level`; None is Kafka's default."""
    if not compression:
        return data
    compressed: Buffer = (_codecs or _loaded()).compress(compression, data, level)
    return compressed


def decompress(compression: Compression, data: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """Returns `data` decompressed, at most `limit` bytes. Raises CorruptBatch."""
    if not compression:
        return data
    decompressed: Buffer = (_codecs or _loaded()).decompress(compression, data, limit)
    return decompressed


def decompress_into(compression: Compression, data: Buffer, out: Writable) -> int:
    """Decompresses `data` to the start of the writable buffer `out`. Returns the size of the result.

    It is stricter than `decompress`: it accepts one lz4 frame of independent blocks or one gzip member, as only these
    are read by every client. Raises CorruptBatch, and TooLargeDecompressed if `out` is too small.
    """
    size: int = (_codecs or _loaded()).decompress_into(compression, data, out)
    return size


def unpack(compression: int, data: Buffer, room: memoryview) -> Buffer:
    """Returns `data` decompressed, in `room` or in memory of its own. As strict as `decompress_into`.

    Raises CorruptBatch, and TooLargeDecompressed if `room` is too small.
    """
    unpacked: Buffer = (_codecs or _loaded()).unpack(compression, data, room)
    return unpacked
