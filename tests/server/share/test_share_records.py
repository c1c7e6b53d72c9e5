"""The headers of large and small batches in a file, and the bytes that are read for them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import Record, encode_batch
from odradek.server.share.share_batches import READ_AHEAD_BYTES, batches_of, cut
from odradek.storage.files.open_files import OpenFile
from odradek.storage.segments.slices import LogSlice


def batches(sizes: list[int]) -> bytes:
    return b"".join(encode_batch([Record(number, 0, None, bytes(size))]) for number, size in enumerate(sizes))


def slice_of(data: bytes, path: Path) -> LogSlice:
    path.write_bytes(data)
    return LogSlice(OpenFile(str(path)), 0, len(data), 0, 0, 0)


@pytest.mark.parametrize("largest", [10, 500, READ_AHEAD_BYTES // 2, 3 * READ_AHEAD_BYTES])
def test_every_batch_is_found_with_its_place(largest: int, tmp_path: Path) -> None:
    rng = random.Random(largest)
    data = batches([rng.randrange(largest) for _ in range(60)])
    found = list(batches_of(slice_of(data, tmp_path / "log")))
    expected = [(header.base_offset, header.last_offset, at, header.size) for at, header in iter_headers(data)]
    assert [(b.base_offset, b.last_offset, b.position, b.size) for b in found] == expected


def test_only_headers_of_large_batches_are_read(tmp_path: Path) -> None:
    data = batches([2 * READ_AHEAD_BYTES] * 20)
    read = []

    def counted(fd: int, size: int, position: int) -> bytes:
        read.append(size)
        return os.pread(fd, size, position)

    assert len(list(batches_of(slice_of(data, tmp_path / "log"), counted))) == 20
    assert sum(read[1:]) < 20 * 100


def test_cut_slice_holds_exactly_the_batches_of_the_offsets(tmp_path: Path) -> None:
    found = slice_of(batches([100] * 10), tmp_path / "log")
    heads = list(batches_of(found))
    taken = cut(found, heads, 3, 5)
    assert (taken.position, taken.next_offset) == (heads[3].position, 6)
    assert [b.base_offset for b in batches_of(taken)] == [3, 4, 5]
