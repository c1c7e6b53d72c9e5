"""The compression codecs: round trips, interoperability with other libraries, and decompression bombs."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import struct
import time

import cramjam
import lz4.frame
import pytest
from odradek.protocol.records.compression import LEVELS, Compression, compress, decompress
from odradek.protocol.records.errors import CorruptBatch

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
TEXT = b"the same words over and over, " * 9000
SAMPLES = {
    "nothing": b"",
    "a byte": b"x",
    "text": TEXT,
    "noise": os.urandom(100_000),
    "both": TEXT + os.urandom(70_000),
}
LIMIT = 1 << 20

by_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)


@by_codec
@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("level", [None, 1, 5])
def test_compressed_data_survives_round_trip(codec: Compression, sample: str, level: int | None) -> None:
    data = SAMPLES[sample]
    for given in (data, memoryview(bytearray(data))):
        assert bytes(decompress(codec, compress(codec, given, level))) == data


@pytest.mark.parametrize("codec", LEVELS, ids=lambda codec: codec.name)
def test_every_level_of_kafka_is_accepted(codec: Compression) -> None:
    low, high, default = LEVELS[codec]
    for level in {low, high, default, 0 if codec is Compression.ZSTD else low}:
        assert bytes(decompress(codec, compress(codec, TEXT[:5000], level))) == TEXT[:5000]


def test_other_libraries_read_our_frames_and_we_theirs() -> None:
    assert gzip.decompress(compress(Compression.GZIP, TEXT)) == TEXT
    assert decompress(Compression.GZIP, gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:])) == TEXT
    assert lz4.frame.decompress(bytes(compress(Compression.LZ4, SAMPLES["both"]))) == SAMPLES["both"]
    for linked in (True, False):
        framed = lz4.frame.compress(TEXT, block_linked=linked, content_checksum=True, store_size=True)
        assert bytes(decompress(Compression.LZ4, framed)) == TEXT
    assert bytes(decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)))) == TEXT


def test_lz4_blocks_are_independent_as_java_requires() -> None:
    assert compress(Compression.LZ4, TEXT)[4] & 0x20
    assert compress(Compression.LZ4, TEXT, 5)[4] & 0x20


@by_codec
def test_result_larger_than_limit_raises(codec: Compression) -> None:
    assert len(decompress(codec, compress(codec, bytes(LIMIT)), LIMIT)) == LIMIT
    for size in (LIMIT + 1, 64 << 20):
        bomb = compress(codec, bytes(size))
        started = time.process_time()
        with pytest.raises(CorruptBatch, match="more than 1048576 bytes"):
            decompress(codec, bomb, LIMIT)
        assert time.process_time() - started < 1


def test_snappy_block_with_wrong_size_allocates_no_memory() -> None:
    for block in (b"\xff\xff\xff\x3f\0", b"\xff\xff\xff\xff\x0f\0", b"\x80\x80\x40" + bytes(20)):
        for data in (block, b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block):
            with pytest.raises(CorruptBatch):
                decompress(Compression.SNAPPY, data)


@by_codec
def test_damaged_data_raises_corrupt_batch_or_decompresses_differently(codec: Compression) -> None:
    rng = random.Random(codec)
    honest = bytes(compress(codec, SAMPLES["both"][-80_000:]))
    for _ in range(300):
        data = bytearray(honest)
        for _ in range(rng.choice((1, 3, 20))):
            data[rng.choice((rng.randrange(len(data)), rng.randrange(40)))] = rng.randrange(256)
        rejected_or_read(codec, bytes(data))
    for end in [*range(40), *range(40, len(honest), 997)]:
        rejected_or_read(codec, honest[:end])
        rejected_or_read(codec, os.urandom(end))


def rejected_or_read(codec: Compression, data: bytes) -> None:
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, data, LIMIT)) <= LIMIT
