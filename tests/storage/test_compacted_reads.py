"""Reads of a log whose closed segments end before the next one begins, as compaction leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log

NOW_MS = 1_700_000_000_000


def batch(offset: int) -> bytes:
    return encode_batch([Record(offset, NOW_MS, b"k", b"v")], base_offset=offset, leader_epoch=1)


@pytest.mark.parametrize(
    ("offsets", "asked", "first"),
    [
        ([0, 5], 0, 0),
        ([0, 5], 1, 5),
        ([0, 5], 4, 5),
        ([0, 5, 9], 3, 5),
        ([0, 5, 9], 7, 9),
        ([0, 5, 9], 9, 9),
    ],
)
def test_read_in_a_gap_at_the_end_of_a_segment_returns_the_next_one(
    offsets: list[int], asked: int, first: int, tmp_path: Path
) -> None:
    config = LogConfig(segment_bytes=len(batch(0)))
    log = Log.open(tmp_path / "t-0", "t", 0, config, now_ms=NOW_MS)
    for offset in offsets:
        log.append(batch(offset), None, NOW_MS)
    assert [segment.base_offset for segment in log.segments] == offsets, "each batch has a segment"
    found = log.read(asked, 1)
    assert [header.base_offset for _, header in iter_headers(found.bytes())] == [first]
    assert found.next_offset == first + 1
    log.close(NOW_MS)


def test_read_at_the_end_of_the_log_returns_nothing(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", "t", 0, LogConfig(segment_bytes=len(batch(0))), now_ms=NOW_MS)
    for offset in (0, 5):
        log.append(batch(offset), None, NOW_MS)
    assert log.read(6, 1).size == 0
    log.close(NOW_MS)
