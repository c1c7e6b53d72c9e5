"""The compiled decompressors return the same bytes as the libraries, and write no byte outside of their output buffer.

They also reject payloads that decoders read differently. `python -m tests.protocol.test_kernel_codecs SEED SECONDS` runs
for longer.
"""

from __future__ import annotations

import random
import struct
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import cramjam
import lz4.frame
import pytest
import xxhash
import zstandard
from odradek.protocol.records.codecs import pure_lz4_into, pure_snappy_into
from odradek.protocol.records.compression import Compression, compress, decompress_into
from odradek.protocol.records.errors import CorruptBatch, TooLargeDecompressed

from .lz4_reference import NoBlock, decoded

kernel = pytest.importorskip("odradek_kernel")

SEED, MUTATIONS = 7, 6000
DAMAGED, TOO_LARGE = -1, -2
GUARD = b"\xa5" * 64
STORED = 1 << 31

INTO: dict[Compression, tuple[Callable[[Any, Any], int], Callable[[Any, Any], int]]] = {
    Compression.LZ4: (lambda data, out: kernel.decompress_lz4(data, out), pure_lz4_into),
    Compression.SNAPPY: (lambda data, out: kernel.decompress_snappy(data, out), pure_snappy_into),
}


def plain(rng: random.Random) -> bytes:
    size = rng.choice((0, 1, 5, 13, 40, 300, 3000, 70_000, rng.randrange(400), rng.randrange(400)))
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(size)
    if kind == 1:
        return bytes(rng.choices(b"ab", k=size))
    if kind == 2:
        return (rng.randbytes(rng.randrange(1, 40)) * (size + 1))[:size]
    words = [rng.randbytes(rng.randrange(1, 30)) for _ in range(20)]
    return b"".join(rng.choice(words) * rng.choice((1, 1, 5)) for _ in range(size // 15 + 1))[:size]


def packed(rng: random.Random, data: bytes) -> tuple[Compression, bytes]:
    kind = rng.randrange(6)
    if kind == 0:
        return Compression.LZ4, bytes(compress(Compression.LZ4, data, rng.choice((None, 3, 12))))
    if kind < 4:
        frame = lz4.frame.compress(
            data,
            block_size=rng.choice((4, 4, 5, 7)),
            block_linked=rng.random() < 0.1,
            content_checksum=rng.random() < 0.5,
            block_checksum=rng.random() < 0.5,
            store_size=rng.random() < 0.5,
            compression_level=rng.choice((0, 0, 9)),
        )
        return Compression.LZ4, frame
    if kind == 4:
        return Compression.SNAPPY, bytes(compress(Compression.SNAPPY, data))
    return Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data))


def mutated(rng: random.Random, codec: Compression, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 6))):
        at = rng.randrange(len(made) + 1) if rng.random() < 0.6 else rng.randrange(min(len(made), 40) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            made[at : at + 1] = bytes([rng.choice((0, 1, 15, 16, 0x1F, 0xF0, 0xFF, rng.randrange(256)))])
        elif kind == 1 and at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del made[at : at + rng.choice((1, 1, 2, 4, 8, 50))]
        elif kind == 3:
            made[at:at] = rng.randbytes(rng.choice((1, 1, 2, 4, 8)))
        elif kind == 4:
            made[at:at] = made[rng.randrange(len(made) + 1) :][: rng.randrange(1, 30)]
        else:
            made[at : at + 4] = struct.pack("<I", rng.choice((0, 1, STORED, STORED + 1, 65536, 65537, 0xFFFFFFFF)))
    if codec is Compression.LZ4 and len(made) > 7 and rng.random() < 0.7:
        with_header_checksum(made)
    return bytes(made)


def with_header_checksum(frame: bytearray) -> None:
    end = 7 + (8 if frame[4] & 8 else 0)
    if len(frame) >= end:
        frame[end - 1] = xxhash.xxh32(bytes(frame[4 : end - 1])).intdigest() >> 8 & 0xFF


def by_library(codec: Compression, data: bytes, room: int) -> tuple[int, bytes]:
    out = bytearray(room)
    try:
        return (made := INTO[codec][1](data, out)), bytes(out[:made])
    except cramjam.DecompressionError as error:
        return (TOO_LARGE if "whole buffer" in str(error) else DAMAGED), b""
    except TooLargeDecompressed:
        return TOO_LARGE, b""
    except (CorruptBatch, IndexError, struct.error):
        return DAMAGED, b""


def by_kernel(codec: Compression, data: bytes, room: int) -> tuple[int, bytes]:
    return guarded(INTO[codec][0], data, room)


def guarded(into: Callable[[Any, Any], int], data: bytes | bytearray, room: int) -> tuple[int, bytes]:
    """Returns the code and the bytes that a decompressor of the kernel wrote, none of them outside of the room."""
    whole = bytearray(GUARD + bytes(room) + GUARD)
    made = into(data, memoryview(whole)[len(GUARD) : len(GUARD) + room])
    assert whole.startswith(GUARD) and whole.endswith(GUARD), data.hex()
    return made, bytes(whole[len(GUARD) :][: max(made, 0)])


def is_valid_lz4(frame: bytes) -> bool:
    """Returns whether each block of a frame that the library accepts is valid by the specification."""
    at = 15 if frame[4] & 8 else 7
    (word,) = struct.unpack_from("<I", frame, at)
    while word:
        size = word & ~STORED
        block = frame[at + 4 : at + 4 + size]
        try:
            if not word & STORED:
                decoded(block)
        except NoBlock:
            return False
        at += 4 + size + (4 if frame[4] & 0x10 else 0)
        (word,) = struct.unpack_from("<I", frame, at)
    return True


def compare(rng: random.Random) -> str:
    """Compares one mutated payload. Returns the outcome."""
    data = plain(rng)
    codec, good = packed(rng, data)
    payload = mutated(rng, codec, good)
    room = rng.choice((len(data), len(data), len(data) + 1, max(0, len(data) - 1), len(data) + 100, 200_000))
    found, expected = by_kernel(codec, payload, room), by_library(codec, payload, room)
    if found[0] >= 0:
        assert found == expected, (codec, room, payload.hex())
        return f"{codec.name} made"
    if expected[0] >= 0:
        # The specification must reject a payload that only the kernel rejects.
        assert codec is Compression.LZ4 and not is_valid_lz4(payload), (codec, room, payload.hex())
        return "by the kernel alone"
    return f"{codec.name} rejected"


@pytest.mark.slow
def test_kernel_and_libraries_agree_on_mutated_payloads() -> None:
    rng = random.Random(SEED)
    counts = Counter(compare(rng) for _ in range(MUTATIONS))
    for codec in INTO:
        assert counts[f"{codec.name} made"] > MUTATIONS // 50, counts
        assert counts[f"{codec.name} rejected"] > MUTATIONS // 50, counts


@pytest.mark.parametrize("codec", INTO)
def test_kernel_fills_a_room_exactly_and_reports_one_that_is_too_small(codec: Compression) -> None:
    data = b"a line of a log that says hardly anything new\n" * 5000
    payload = bytes(compress(codec, data))
    assert by_kernel(codec, payload, len(data)) == (len(data), data)
    assert by_kernel(codec, payload, len(data) - 1)[0] == TOO_LARGE
    assert by_kernel(codec, payload[:-1], len(data))[0] == DAMAGED


def frame_of(*blocks: tuple[int, bytes]) -> bytes:
    made = b"".join(struct.pack("<I", word) + block for word, block in blocks)
    return bytes.fromhex("04224d18604082") + made + bytes(4)


def test_lz4_match_at_offset_zero_is_rejected() -> None:
    block = b"\x40abcd" + b"\0\0" + b"\x50vwxyz"
    assert pure_lz4_into(frame_of((len(block), block)), bytearray(100)) == 13
    assert by_kernel(Compression.LZ4, frame_of((len(block), block)), 100)[0] == DAMAGED


def test_lz4_content_size_of_zero_is_unknown() -> None:
    frame = bytearray(lz4.frame.compress(b"abcd", store_size=True))
    frame[6:14] = bytes(8)
    with_header_checksum(frame)
    assert (
        by_kernel(Compression.LZ4, bytes(frame), 100) == by_library(Compression.LZ4, bytes(frame), 100) == (4, b"abcd")
    )
    frame[6] = 5
    with_header_checksum(frame)
    assert by_kernel(Compression.LZ4, bytes(frame), 100)[0] == by_library(Compression.LZ4, bytes(frame), 100)[0] < 0


def test_empty_lz4_block_is_rejected() -> None:
    frame = frame_of((STORED, b""), (STORED | 2, b"ab"))
    assert by_kernel(Compression.LZ4, frame, 100)[0] == DAMAGED
    with pytest.raises(CorruptBatch):
        pure_lz4_into(frame, bytearray(100))


def test_snappy_size_of_six_bytes_is_rejected() -> None:
    block = b"\x82\x80\x80\x80\x80\x00" + b"\x04ab"
    assert by_kernel(Compression.SNAPPY, block, 100)[0] == DAMAGED
    with pytest.raises(CorruptBatch):
        pure_snappy_into(block, bytearray(100))
    assert by_kernel(Compression.SNAPPY, b"\x02\x04ab", 100) == (2, b"ab")


def zstd_frame(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.7:
        return bytes(cramjam.zstd.compress(data, level=rng.choice((1, 3, 19))))
    return zstandard.ZstdCompressor(
        level=rng.choice((-5, 3)),
        write_checksum=rng.random() < 0.5,
        write_content_size=rng.random() < 0.5,
    ).compress(data)


def compare_zstd(rng: random.Random) -> str:
    """Compares one mutated zstd frame. The kernel may leave a frame to the library, and accepts none that it rejects."""
    data = plain(rng)
    payload = bytearray(zstd_frame(rng, data))
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        payload[rng.randrange(len(payload))] = rng.randrange(256)
    payload = payload[: rng.choice((len(payload), len(payload), rng.randrange(len(payload) + 1)))]
    payload += rng.choice((b"", b"", b"", b"\0", zstd_frame(rng, b"more")))
    room = rng.choice((len(data), len(data) + 1, max(0, len(data) - 1), 200_000))
    made, found = guarded(kernel.decompress_zstd, payload, room)
    if made < 0:
        assert made in (DAMAGED, TOO_LARGE), "without zstandard in the kernel"
        return "rejected"
    assert found == zstandard.ZstdDecompressor().decompressobj().decompress(payload), (room, payload.hex())
    library_room = bytearray(made)
    assert cramjam.zstd.decompress_into(payload, library_room) == made and library_room == found, payload.hex()
    return "made"


@pytest.mark.slow
def test_kernel_and_libraries_agree_on_mutated_zstd_frames() -> None:
    rng = random.Random(SEED)
    counts = Counter(compare_zstd(rng) for _ in range(MUTATIONS))
    assert min(counts["made"], counts["rejected"]) > MUTATIONS // 10, counts


def test_kernel_leaves_unusual_zstd_frames_to_the_library() -> None:
    data = b"a line of a log that says hardly anything new\n" * 500
    out = bytearray(len(data))
    usual = bytes(cramjam.zstd.compress(data, level=3))
    assert kernel.decompress_zstd(usual, out) == len(data) and out == data
    assert kernel.decompress_zstd(usual, bytearray(len(data) - 1)) == TOO_LARGE
    skippable = b"\x50\x2a\x4d\x18\x02\0\0\0ab"
    wide = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    for unusual in (b"", usual + usual, usual + skippable, skippable + usual, stream.compress(data) + stream.flush()):
        assert kernel.decompress_zstd(unusual, out) == DAMAGED


def gzip_member(rng: random.Random, data: bytes) -> bytes:
    strategy = rng.choice((zlib.Z_DEFAULT_STRATEGY, zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY))
    stream = zlib.compressobj(rng.choice((0, 1, 6, 9)), zlib.DEFLATED, 31, strategy=strategy)
    made = stream.compress(data[: len(data) // 2])
    if rng.random() < 0.3:
        made += stream.flush(zlib.Z_FULL_FLUSH)
    return made + stream.compress(data[len(data) // 2 :]) + stream.flush()


def by_zlib(payload: bytes) -> bytes | None:
    """Returns the content of one whole member, None for anything else."""
    member = zlib.decompressobj(wbits=31)
    try:
        found = member.decompress(payload)
    except zlib.error:
        return None
    return found if member.eof and not member.unused_data else None


def compare_gzip(rng: random.Random) -> str:
    """Compares one mutated member. zlib, which Java and librdkafka use, reads what the kernel accepts, and `decompress_into`
    of Python as well."""
    data = plain(rng)
    payload = bytearray(gzip_member(rng, data))
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        # The codes of a block stand at its beginning: a third of the changes are there.
        at = rng.randrange(10, min(len(payload), 30)) if rng.random() < 0.3 else rng.randrange(len(payload))
        payload[at] ^= 1 << rng.randrange(8)
    payload = payload[: rng.choice((len(payload), len(payload), rng.randrange(len(payload) + 1)))]
    if rng.random() < 0.5:
        # A right trailer: only the stream itself can be wrong then.
        stream = zlib.decompressobj(wbits=-15)
        with suppress(zlib.error):
            content = stream.decompress(bytes(payload[10:]))
            body = payload[: len(payload) - len(stream.unused_data)]
            payload = body + struct.pack("<II", zlib.crc32(content), len(content))
    payload += rng.choice((b"", b"", b"", b"\0", gzip_member(rng, b"more")))
    room = rng.choice((len(data), len(data) + 1, max(0, len(data) - 1), 200_000))
    made, found = guarded(kernel.decompress_gzip, payload, room)
    if made < 0:
        assert made in (DAMAGED, TOO_LARGE), "without isal in the kernel"
        return "rejected"
    assert found == by_zlib(bytes(payload)), (room, payload.hex())
    library_room = bytearray(made)
    assert decompress_into(Compression.GZIP, payload, library_room) == made and library_room == found, payload.hex()
    return "made"


@pytest.mark.slow
def test_kernel_and_zlib_agree_on_mutated_gzip_members() -> None:
    rng = random.Random(SEED)
    counts = Counter(compare_gzip(rng) for _ in range(MUTATIONS))
    assert min(counts["made"], counts["rejected"]) > MUTATIONS // 10, counts


def test_kernel_leaves_unusual_gzip_members_to_the_library() -> None:
    data = b"a line of a log that says hardly anything new\n" * 500
    out = bytearray(len(data))
    usual = zlib.compress(data, wbits=31)
    assert kernel.decompress_gzip(usual, out) == len(data) and out == data
    assert kernel.decompress_gzip(usual, bytearray(len(data) - 1)) == TOO_LARGE
    named = usual[:3] + b"\x08" + usual[4:10] + b"a name\0" + usual[10:]
    assert zlib.decompress(named, wbits=31) == data
    for unusual in (b"", usual[:17], usual + usual, usual + b"\0", named):
        assert kernel.decompress_gzip(unusual, out) == DAMAGED


def test_kernel_keeps_its_gzip_when_it_is_offered_another_library() -> None:
    usual, out = zlib.compress(b"some records", wbits=31), bytearray(100)
    for path in ("/no such file", kernel.__file__):
        assert not kernel.load_isal(path) and kernel.decompress_gzip(usual, out) == len(b"some records")


def main() -> None:
    rng, until = random.Random(int(sys.argv[1])), time.monotonic() + float(sys.argv[2])
    counts: Counter[str] = Counter()
    while time.monotonic() < until:
        counts.update(compare(rng) for _ in range(1000))
        counts.update(f"zstd {compare_zstd(rng)}" for _ in range(1000))
        counts.update(f"gzip {compare_gzip(rng)}" for _ in range(1000))
    print(sum(counts.values()), dict(counts))


if __name__ == "__main__":
    main()
