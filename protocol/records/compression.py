"""Compression of record batches.

The libraries that do the work are loaded with the first compressed batch (codecs.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..buffer import Buffer
from .compression_type import LEVELS, MAX_DECOMPRESSED_BYTES, Compression

__all__ = ["LEVELS", "MAX_DECOMPRESSED_BYTES", "Compression", "compress", "decompress", "decompress_into", "unpack"]

if TYPE_CHECKING:
    from .compression_type import Writable

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
