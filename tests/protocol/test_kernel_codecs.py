"""The compiled decompressors return the same bytes as the libraries, and write no byte outside of their output buffer.

They also reject payloads that decoders read differently. `python -m tests.protocol.test_kernel_codecs SEED SECONDS` runs
for longer.
"""

from __future__ import annotations

import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import cramjam
import lz4.frame
import pytest
import xxhash
from odradek.protocol.records.codecs import pure_lz4_into, pure_snappy_into
from odradek.protocol.records.compression import Compression, compress
from odradek.protocol.records.errors import CorruptBatch, TooLargeDecompressed

from .lz4_by_the_book import NoBlock, decoded

kernel = pytest.importorskip("odradek_kernel")

SEED, MUTATIONS = 7, 6000
DAMAGED, TOO_LARGE = -1, -2
GUARD = b"\xa5" * 64
STORED = 1 << 31

INTO: dict[Compression, tuple[Callable[[Any, Any], int], Callable[[Any, Any], int]]] = {
    Compression.LZ4: (lambda data, out: kernel.lz4_into(data, out), pure_lz4_into),
    Compression.SNAPPY: (lambda data, out: kernel.snappy_into(data, out), pure_snappy_into),
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
    whole = bytearray(GUARD + bytes(room) + GUARD)
    made = INTO[codec][0](data, memoryview(whole)[len(GUARD) : len(GUARD) + room])
    assert whole.startswith(GUARD) and whole.endswith(GUARD), data.hex()
    return made, bytes(whole[len(GUARD) :][: max(made, 0)])


def is_lz4_by_the_book(frame: bytes) -> bool:
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
        assert codec is Compression.LZ4 and not is_lz4_by_the_book(payload), (codec, room, payload.hex())
        return "by the kernel alone"
    return f"{codec.name} rejected"


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


def main() -> None:
    rng, until = random.Random(int(sys.argv[1])), time.monotonic() + float(sys.argv[2])
    counts: Counter[str] = Counter()
    while time.monotonic() < until:
        counts.update(compare(rng) for _ in range(1000))
    print(sum(counts.values()), dict(counts))


if __name__ == "__main__":
    main()
