"""Records of a response: copied or sent from their file, and read by a thread first where the page cache lacks them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from odradek.server.partitions import sendable_records
from odradek.server.partitions.sendable_records import (
    COPIED_BYTES,
    MOST_CROWDED_BYTES,
    WARMED_BYTES,
    NotInPageCache,
    in_page_cache,
    sendable,
    warm,
)
from odradek.storage.files.open_files import OPEN_FILES, OpenFile
from odradek.storage.segments import slices
from odradek.storage.segments.damage import SegmentSuspected
from odradek.storage.segments.slices import LogSlice

BASE, AT = 40, 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "segment"
    found.write_bytes(bytes(AT + 4 * WARMED_BYTES))
    found.read_bytes()  # into the page cache
    return found


def slice_of(path: Path, size: int, position: int = AT) -> LogSlice:
    return LogSlice(OpenFile(str(path), os.O_RDONLY), position, size, BASE, BASE + 1, BASE)


def crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets as many files be open as may be, and one more."""
    monkeypatch.setattr(OPEN_FILES, "limit", OpenFile.count)


class PageCache:
    """A page cache that lacks the bytes at one position. It notes the positions that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, position: int | None) -> None:
        self.looked: list[tuple[int, int]] = []
        self.position = position
        for module in (sendable_records, slices):
            monkeypatch.setattr(module, "pread_nowait", self._pread)

    def _pread(self, fd: int, size: int, position: int) -> Any:
        self.looked.append((position, size))
        if self.position is not None and position <= self.position < position + size:
            raise BlockingIOError
        return os.pread(fd, size, position)


@pytest.mark.parametrize("may_wait", [True, False])
@pytest.mark.parametrize(
    ("size", "is_crowded", "is_copied"),
    [
        (1, False, True),
        (COPIED_BYTES, False, True),
        (COPIED_BYTES + 1, False, False),
        (COPIED_BYTES + 1, True, True),
        (MOST_CROWDED_BYTES, True, True),
        (MOST_CROWDED_BYTES + 1, True, False),
    ],
)
def test_small_records_are_copied_and_larger_ones_while_many_files_are_held(
    size: int, is_crowded: bool, is_copied: bool, may_wait: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_crowded:
        crowd(monkeypatch)
    else:
        monkeypatch.setattr(OPEN_FILES, "limit", OpenFile.count + 1)
    records = slice_of(path, size)
    piece = sendable(records, may_wait=may_wait)
    assert (piece is not records) == is_copied and len(piece) == size


@pytest.mark.parametrize("size", [200, COPIED_BYTES + 200])
@pytest.mark.parametrize("cold", ["first", "last", "middle", "before", "behind", None])
def test_records_that_are_not_in_the_page_cache_are_read_by_a_thread(
    size: int, cold: str | None, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fetch looks only at both ends of records that the connection sends from their file."""
    positions = {"first": AT, "last": AT + size - 1, "middle": AT + 50, "before": AT - 1, "behind": AT + size}
    PageCache(monkeypatch, None if cold is None else positions[cold])
    records = slice_of(path, size)
    is_cold = cold in ("first", "last") or (cold == "middle" and size <= COPIED_BYTES)
    if size > COPIED_BYTES:
        assert in_page_cache(records) == (not is_cold)
    if is_cold:
        with pytest.raises(NotInPageCache) as met:
            sendable(records, may_wait=False)
        met.value.read()
    else:
        assert len(sendable(records, may_wait=False)) == size
    assert len(sendable(records, may_wait=True)) == size, "it is read, cold or not"


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_file_that_ends_before_the_records_is_suspected(missing: int, path: Path) -> None:
    size = path.stat().st_size - AT
    records = slice_of(path, size)
    os.truncate(path, path.stat().st_size - missing)
    if missing:
        with pytest.raises(SegmentSuspected) as met:
            in_page_cache(records)
        assert met.value.base_offset == BASE
    else:
        assert in_page_cache(records)


@pytest.mark.parametrize(
    ("size", "reads"),
    [
        (1, [(AT, 1)]),
        (WARMED_BYTES, [(AT, WARMED_BYTES)]),
        (WARMED_BYTES + 1, [(AT, WARMED_BYTES), (AT + WARMED_BYTES, 1)]),
        (3 * WARMED_BYTES, [(AT + number * WARMED_BYTES, WARMED_BYTES) for number in range(3)]),
    ],
)
def test_thread_reads_the_whole_range_in_parts(
    size: int, reads: list[tuple[int, int]], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = slice_of(path, size)
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(sendable_records.os, "pread", lambda fd, size, position: found.append((position, size)))
    warm(records)
    monkeypatch.undo()
    assert found == reads
