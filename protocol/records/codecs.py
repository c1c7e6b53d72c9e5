"""The four compression codecs of record batches, in the formats of Kafka's clients.

gzip is RFC 1952. snappy is either one raw block, or xerial's format (written by Java: blocks of 32 KiB after a magic
number). lz4 is the frame format; Java reads only independent blocks, so these are written here. zstd is RFC 8878.

The input is untrusted. The size of the result is limited before and during decompression, and any error raises
CorruptBatch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import cramjam

from ..buffer import Buffer
from .compiled_codecs import isal_zlib, kernel_lz4, kernel_snappy
from .compression_type import LEVELS, MAX_DECOMPRESSED_BYTES, Compression
from .errors import CorruptBatch, TooLargeDecompressed

if TYPE_CHECKING:
    from .compression_type import Writable


_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 << 10
#: A two-byte snappy element yields at most 64 bytes: a block that claims more has a wrong size.
_SNAPPY_GREATEST_RATIO = 32
#: The varint of a snappy block's size, as C++ and Java read it.
_MOST_SNAPPY_SIZE_BYTES = 5
#: The return code of the kernel's decompressors when the result does not fit.
_NO_ROOM = -2

#: Magic; version 1 and independent blocks; blocks of at most 64 KiB; the checksum of those two bytes.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES = 64 << 10
_LZ4_STORED = 1 << 31
#: isal takes two thirds of the time, but its result must be copied, so it is not used for large results.
_MOST_BY_ISAL_BYTES = 2 << 20
_LZ4_SIZE = struct.Struct("<I")
_LZ4_HAS_BLOCK_CHECKSUMS, _LZ4_HAS_CONTENT_SIZE, _LZ4_HAS_CONTENT_CHECKSUM = 0x10, 0x08, 0x04

#: The initial estimate of the result size, as a multiple of the compressed size. A low estimate costs a second
#: attempt, a high one only address space.
_EXPECTED_RATIO = 8
_SMALLEST_GUESS = 16 << 10


def compress(compression: Compression, data: Buffer, level: int | None = None) -> Buffer:
    """Returns `data` compressed. `level` is as in `compression.<codec>.level`; None is Kafka's default."""
    return _COMPRESSORS[compression](data, level)


def decompress(compression: Compression, data: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """Returns `data` decompressed, at most `limit` bytes. Raises CorruptBatch."""
    try:
        return _DECOMPRESSORS[compression](data, limit)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise CorruptBatch(f"{compression.name.lower()} data is damaged: {error}") from None


def decompress_into(compression: Compression, data: Buffer, out: Writable) -> int:
    """Decompresses `data` to the start of the writable buffer `out`. Returns the size of the result.

    It is stricter than `decompress`: it accepts one lz4 frame of independent blocks or one gzip member, as only these
    are read by every client. Raises CorruptBatch, and TooLargeDecompressed if `out` is too small.
    """
    try:
        return _INTO[compression](data, out)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise _too_large(compression.name.lower(), len(out)) from None
        raise CorruptBatch(f"{compression.name.lower()} data is damaged: {error}") from None
    except (IndexError, struct.error) as error:
        raise CorruptBatch(f"{compression.name.lower()} data is damaged: {error}") from None


def unpack(compression: int, data: Buffer, room: memoryview) -> Buffer:
    """Returns `data` decompressed, in `room` or in memory of its own. As strict as `decompress_into`.

    Raises CorruptBatch, and TooLargeDecompressed if `room` is too small.
    """
    if compression == Compression.GZIP and isal_zlib is not None and len(room) <= _MOST_BY_ISAL_BYTES:
        return _gzip_by_isal(data, len(room))
    return room[: decompress_into(Compression(compression), data, room)]


def _gzip_into(data: Buffer, out: Writable) -> int:
    if isal_zlib is not None and len(out) <= _MOST_BY_ISAL_BYTES:
        payload = _gzip_by_isal(data, len(out))
        memoryview(out)[: len(payload)] = payload
        return len(payload)
    made: int = cramjam.gzip.decompress_into(data, out)
    if made != int.from_bytes(data[-4:], "little"):
        raise CorruptBatch("gzip data has more than one member")
    return made


def _gzip_by_isal(data: Buffer, limit: int) -> bytes:
    member = isal_zlib.decompressobj(wbits=31)
    try:
        made: bytes = member.decompress(data, limit + 1)
    except isal_zlib.error as error:
        raise CorruptBatch(f"gzip data is damaged: {error}") from None
    if len(made) > limit:
        raise _too_large("gzip", limit)
    if not member.eof or member.unused_data:
        raise CorruptBatch("gzip data is not one whole member")
    return made


def _by_kernel(codec: str, decompress_into: Callable[[Buffer, Writable], int]) -> Callable[[Buffer, Writable], int]:
    def into(data: Buffer, out: Writable) -> int:
        made = decompress_into(data, out)
        if made < 0:
            raise _too_large(codec, len(out)) if made == _NO_ROOM else CorruptBatch(f"{codec} data is damaged")
        return made

    return into


def pure_snappy_into(data: Buffer, out: Writable) -> int:
    view, room = memoryview(data), memoryview(out)
    if view[:8] != _XERIAL_MAGIC:
        return _snappy_block_into(view, room)
    if view[8:16] != _XERIAL_HEADER[8:]:
        # Java accepts any compatible later version; aiokafka takes such data for one raw block.
        raise CorruptBatch("snappy data with a version other than 1")
    pos, made = len(_XERIAL_HEADER), 0
    while pos < len(view):
        (size,) = struct.unpack_from(">i", view, pos)
        pos += 4
        if not 0 <= size <= len(view) - pos:
            raise CorruptBatch(f"snappy block of {size} bytes, {len(view) - pos} remain")
        made += _snappy_block_into(view[pos : pos + size], room[made:])
        pos += size
    return made


def _snappy_block_into(block: memoryview, room: memoryview) -> int:
    if len(block) > _MOST_SNAPPY_SIZE_BYTES and min(block[:_MOST_SNAPPY_SIZE_BYTES]) > 127:
        raise CorruptBatch("snappy block whose size does not end")
    size: int = cramjam.snappy.decompress_raw_len(block)
    if size > len(block) * _SNAPPY_GREATEST_RATIO:
        raise CorruptBatch(f"snappy block of {len(block)} bytes claims to hold {size}")
    if size > len(room):
        raise _too_large("snappy", len(room))
    made: int = cramjam.snappy.decompress_raw_into(block, room[:size])
    return made


def pure_lz4_into(data: Buffer, out: Writable) -> int:
    _check_lz4_frame(data)
    made: int = cramjam.lz4.decompress_into(data, out)
    return made


def _check_lz4_frame(data: Buffer) -> None:
    """Raises CorruptBatch unless Java reads all of `data`: one frame, version 1, independent blocks, no dictionary, no
    empty block, which Java takes for the end.
    """
    flags = data[4]
    if data[:4] != _LZ4_HEADER[:4] or flags & 0b1110_0011 != 0b0110_0000:
        raise CorruptBatch("lz4 data is not a frame of independent blocks")
    pos = len(_LZ4_HEADER) + (8 if flags & _LZ4_HAS_CONTENT_SIZE else 0)
    after_block = 4 if flags & _LZ4_HAS_BLOCK_CHECKSUMS else 0
    (size,) = _LZ4_SIZE.unpack_from(data, pos)
    while size:
        if size == _LZ4_STORED:
            raise CorruptBatch("lz4 data with an empty block")
        pos += 4 + (size & ~_LZ4_STORED) + after_block
        (size,) = _LZ4_SIZE.unpack_from(data, pos)
    pos += 8 if flags & _LZ4_HAS_CONTENT_CHECKSUM else 4
    if pos != len(data):
        raise CorruptBatch("lz4 data does not end with its first frame")


def _zstd_into(data: Buffer, out: Writable) -> int:
    # For Java, empty data has no frame and no records.
    made: int = cramjam.zstd.decompress_into(data, out) if len(data) else 0
    return made


def _too_large(codec: str, limit: int) -> TooLargeDecompressed:
    return TooLargeDecompressed(f"{codec} data yields more than {limit} bytes")


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    return zlib.compress(data, -1 if level is None else level, wbits=31)


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    pieces: list[bytes] = []
    left, rest = limit, bytes(data)
    while rest:
        member = zlib.decompressobj(wbits=31)
        # One byte over the limit distinguishes a result that is too large from one that just fits.
        pieces.append(member.decompress(rest, left + 1))
        left -= len(pieces[-1])
        if left < 0:
            raise _too_large("gzip", limit)
        if not member.eof:
            raise CorruptBatch("gzip data ends too early")
        rest = member.unused_data
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _compress_snappy(data: Buffer, level: int | None) -> bytes:
    view = memoryview(data)
    pieces: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += (struct.pack(">i", len(block)), block)
    return b"".join(pieces)


def _decompress_snappy(data: Buffer, limit: int) -> Buffer:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return _snappy_block(view, limit, limit)
    pieces: list[Buffer] = []
    pos, left = len(_XERIAL_HEADER), limit
    while pos < len(view):
        (size,) = struct.unpack_from(">i", view, pos)
        pos += 4
        if not 0 <= size <= len(view) - pos:
            raise CorruptBatch(f"snappy block of {size} bytes, {len(view) - pos} remain")
        pieces.append(_snappy_block(view[pos : pos + size], left, limit))
        left -= len(pieces[-1])
        pos += size
    return b"".join(pieces)


def _snappy_block(block: memoryview, left: int, limit: int) -> Buffer:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > left:
        raise _too_large("snappy", limit)
    if size > len(block) * _SNAPPY_GREATEST_RATIO:
        raise CorruptBatch(f"snappy block of {len(block)} bytes claims to hold {size}")
    out = bytearray(size)
    cramjam.snappy.decompress_raw_into(block, out)
    return out


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    """Compresses with lz4. Kafka's default level, 9, is the fast compressor; any other level is the high-compression
    one.
    """
    view = memoryview(data)
    pieces: list[Buffer] = [_LZ4_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        block = _lz4_block(plain, level)
        if len(block) < len(plain):
            pieces += (struct.pack("<I", len(block)), block)
        else:
            pieces += (struct.pack("<I", len(plain) | _LZ4_STORED), plain)
    pieces.append(bytes(4))
    return b"".join(pieces)


def _lz4_block(plain: memoryview, level: int | None) -> Buffer:
    if level is None or level == LEVELS[Compression.LZ4][2]:
        return bytes(cramjam.lz4.compress_block(plain, store_size=False))
    # The library takes a level only for whole frames, so the block is extracted from a frame of one block.
    frame = memoryview(cramjam.lz4.compress(plain, level=level))
    start = len(_LZ4_HEADER) + 4
    (size,) = struct.unpack_from("<I", frame, len(_LZ4_HEADER))
    return plain if size & _LZ4_STORED else bytes(frame[start : start + size])


def _decompress_lz4(data: Buffer, limit: int) -> Buffer:
    return _grown("lz4", cramjam.lz4.decompress_into, data, limit)


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=LEVELS[Compression.ZSTD][2] if level is None else level))


def _decompress_zstd(data: Buffer, limit: int) -> Buffer:
    return _grown("zstd", cramjam.zstd.decompress_into, data, limit)


def _grown(codec: str, decompress_into: Callable[[Buffer, Writable], int], data: Buffer, limit: int) -> Buffer:
    """Decompresses into a buffer that grows until the result fits, or exceeds the limit."""
    size = min(max(_SMALLEST_GUESS, len(data) * _EXPECTED_RATIO), limit)
    while True:
        out = bytearray(size)
        try:
            made = decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
            if size >= limit:
                raise _too_large(codec, limit) from None
            size = min(size * 4, limit)
            continue
        return memoryview(out)[:made]


_COMPRESSORS: dict[Compression, Callable[[Buffer, int | None], Buffer]] = {
    Compression.GZIP: _compress_gzip,
    Compression.SNAPPY: _compress_snappy,
    Compression.LZ4: _compress_lz4,
    Compression.ZSTD: _compress_zstd,
}
_DECOMPRESSORS: dict[Compression, Callable[[Buffer, int], Buffer]] = {
    Compression.GZIP: _decompress_gzip,
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZ4: _decompress_lz4,
    Compression.ZSTD: _decompress_zstd,
}
_INTO: dict[Compression, Callable[[Buffer, Writable], int]] = {
    Compression.GZIP: _gzip_into,
    Compression.SNAPPY: pure_snappy_into if kernel_snappy is None else _by_kernel("snappy", kernel_snappy),
    Compression.LZ4: pure_lz4_into if kernel_lz4 is None else _by_kernel("lz4", kernel_lz4),
    Compression.ZSTD: _zstd_into,
}
