"""Decompression into a buffer at the limits of each format, by the libraries and without the kernel."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable

import cramjam
import lz4.frame
import pytest
from odradek.protocol.records import codecs, compiled_codecs
from odradek.protocol.records.compression import Compression, compress, decompress, decompress_into, unpack
from odradek.protocol.records.errors import CorruptBatch, TooLargeDecompressed

TEXT = b"the same words over and over, " * 40
CODECS = [codec for codec in Compression if codec]
by_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


def raw(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def xerial(*blocks: bytes) -> bytes:
    return XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


@by_codec
def test_result_fits_exactly_or_is_too_large(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    room = bytearray(len(TEXT))
    assert decompress_into(codec, packed, room) == len(TEXT) and bytes(room) == TEXT
    assert bytes(unpack(codec, packed, memoryview(bytearray(len(TEXT))))) == TEXT
    assert bytes(decompress(codec, packed, len(TEXT))) == TEXT
    for short in (decompress_into, unpack):
        with pytest.raises(TooLargeDecompressed):
            short(codec, packed, memoryview(bytearray(len(TEXT) - 1)))
    with pytest.raises(TooLargeDecompressed):
        decompress(codec, packed, len(TEXT) - 1)


@by_codec
@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: data[1:], lambda data: b""]
)
def test_cut_or_lengthened_data_is_corrupt(codec: Compression, change: Callable[[bytes], bytes]) -> None:
    damaged = change(bytes(compress(codec, TEXT)))
    if codec is Compression.ZSTD and not damaged:
        assert decompress_into(codec, damaged, bytearray(9)) == 0, "no frame and no records, as for Java"
        return
    with pytest.raises(CorruptBatch):
        decompress_into(codec, damaged, bytearray(len(TEXT)))


def test_one_member_of_gzip_is_read_into_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every client reads more."""
    two = gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:])
    assert bytes(decompress(Compression.GZIP, two)) == TEXT
    assert bytes(decompress(Compression.GZIP, two, len(TEXT))) == TEXT
    with pytest.raises(TooLargeDecompressed):
        decompress(Compression.GZIP, two, len(TEXT) - 1)
    for library in (codecs.isal_zlib, None):
        monkeypatch.setattr(codecs, "isal_zlib", library)
        with pytest.raises(CorruptBatch):
            decompress_into(Compression.GZIP, two, bytearray(len(TEXT)))
        assert decompress_into(Compression.GZIP, gzip.compress(TEXT), bytearray(2 * len(TEXT))) == len(TEXT)
    with pytest.raises(CorruptBatch, match="ends too early"):
        decompress(Compression.GZIP, gzip.compress(TEXT)[:-1])


@pytest.mark.parametrize("size", [0, 1])
def test_large_buffer_is_not_filled_by_isal(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of isal must be copied."""
    packed = gzip.compress(TEXT)
    monkeypatch.setattr(codecs, "_MOST_BY_ISAL_BYTES", len(TEXT) - size)
    room = bytearray(len(TEXT))
    assert decompress_into(Compression.GZIP, packed, room) == len(TEXT) and bytes(room) == TEXT
    assert bytes(unpack(Compression.GZIP, packed, memoryview(bytearray(len(TEXT))))) == TEXT


@pytest.mark.parametrize(
    ("data", "is_good"),
    [
        (raw(TEXT), True),
        (xerial(raw(TEXT)), True),
        (xerial(raw(TEXT[:7]), raw(TEXT[7:])), True),
        (xerial(raw(TEXT), raw(b"")), True),
        (XERIAL[:8] + struct.pack(">ii", 2, 1) + struct.pack(">i", len(raw(TEXT))) + raw(TEXT), False),
        (XERIAL + struct.pack(">i", len(raw(TEXT)) + 1) + raw(TEXT), False),
        (XERIAL + struct.pack(">i", -1) + raw(TEXT), False),
        (XERIAL + b"\0\0\0", False),
        (xerial(raw(TEXT)) + b"\0", False),
        (b"\x80\x80\x80\x80\x80\x00", False),
        (b"\xff\xff\xff\xff\xff\x01", False),
        (b"\xc1\x01" + b"\0" * 4, False),
    ],
)
def test_snappy_is_one_block_or_xerials_blocks(data: bytes, is_good: bool) -> None:
    readers = {codecs.pure_snappy_into, codecs._INTO[Compression.SNAPPY]}
    for into in readers:
        room = bytearray(len(TEXT))
        if is_good:
            assert into(data, room) == len(TEXT) and bytes(room) == TEXT
        else:
            with pytest.raises((CorruptBatch, cramjam.DecompressionError, struct.error)):
                into(data, room)


@pytest.mark.parametrize(("claimed", "is_possible"), [(64, True), (65, False)])
def test_snappy_block_claims_at_most_32_bytes_for_each(claimed: int, is_possible: bool) -> None:
    """A larger claim would take memory before the block is found to be wrong."""
    with pytest.raises((CorruptBatch, cramjam.DecompressionError)) as raised:
        codecs.pure_snappy_into(bytes([claimed, 0]), bytearray(1000))
    assert ("claims to hold" in str(raised.value)) != is_possible
    with pytest.raises(CorruptBatch) as corrupt:
        decompress(Compression.SNAPPY, bytes([claimed, 0]))
    assert ("claims to hold" in str(corrupt.value)) != is_possible


def frame(**options: object) -> bytes:
    return bytes(lz4.frame.compress(TEXT, **({"block_linked": False} | options)))


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("block_checksum", [False, True])
@pytest.mark.parametrize("size", [False, True])
def test_lz4_frame_may_have_checksums_and_its_size(checksum: bool, block_checksum: bool, size: bool) -> None:
    data = frame(content_checksum=checksum, block_checksum=block_checksum, store_size=size)
    for into in (codecs.pure_lz4_into, codecs._INTO[Compression.LZ4]):
        room = bytearray(len(TEXT))
        assert into(data, room) == len(TEXT) and bytes(room) == TEXT
        for wrong in (data + b"\0", data + data, data[:-1]):
            with pytest.raises((CorruptBatch, struct.error, cramjam.DecompressionError)):
                into(wrong, bytearray(2 * len(TEXT)))


def test_lz4_frame_that_java_does_not_read_is_corrupt() -> None:
    stored = codecs._LZ4_HEADER + struct.pack("<I", 3 | 1 << 31) + b"abc" + bytes(4)
    assert codecs.pure_lz4_into(stored, bytearray(3)) == 3
    empty_block = codecs._LZ4_HEADER + struct.pack("<I", 1 << 31) + struct.pack("<I", 3 | 1 << 31) + b"abc" + bytes(4)
    for data in (
        bytes(lz4.frame.compress(TEXT * 100, block_linked=True)),
        b"\0" + frame()[1:],
        bytes([*frame()[:4], frame()[4] ^ 0x80, *frame()[5:]]),
        bytes([*frame()[:4], frame()[4] | 0x01, *frame()[5:]]),
        empty_block,
    ):
        with pytest.raises(CorruptBatch):
            codecs.pure_lz4_into(data, bytearray(200 * len(TEXT)))
        with pytest.raises(CorruptBatch):
            decompress_into(Compression.LZ4, data, bytearray(200 * len(TEXT)))


@by_codec
@pytest.mark.parametrize("size", [(32 << 10) - 1, 32 << 10, (32 << 10) + 1, (64 << 10) + 1])
def test_data_of_several_blocks_comes_back(codec: Compression, size: int) -> None:
    data = (TEXT * (size // len(TEXT) + 1))[:size]
    room = bytearray(size)
    assert decompress_into(codec, compress(codec, data), room) == size and bytes(room) == data
    assert bytes(decompress(codec, compress(codec, data), size)) == data


@pytest.mark.parametrize(
    ("version", "is_supported"),
    [("1.6.9", False), ("1.7.0", True), ("1.99", True), ("2.0.0", False), ("0.9", False), ("1", False), ("x.y", False)],
)
def test_kernel_supports_some_versions_of_isal(version: str, is_supported: bool) -> None:
    assert compiled_codecs._is_supported_isal(version) == is_supported
