"""Sparse indexes: a lookup finds the same position as a search through all entries."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.storage.files.partition_directory import PartitionDirectory
from odradek.storage.segments.index import OffsetIndex, TimeIndex

from tests.harness.examples import examples

BASE = 1000
#: More entries than the index keeps in memory, both unwritten and read ones.
ENTRIES = 3000


def expected(entries: list[tuple[int, int]], column: int, target: int) -> int:
    return max((position for offset, position in entries if (offset, position)[column] <= target), default=0)


@pytest.mark.parametrize("seed", range(examples(4)))
def test_lookups_agree_with_all_entries_after_any_appends_and_truncations(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    place = PartitionDirectory(str(tmp_path))
    (tmp_path / f"{BASE:020}.index").write_bytes(b"")
    index, entries = OffsetIndex(place, BASE), list[tuple[int, int]]()

    def grow() -> None:
        offset, position = entries[-1] if entries else (BASE, 0)
        for _ in range(rng.randrange(1, ENTRIES)):
            offset, position = offset + rng.randrange(1, 20), position + rng.randrange(1, 5000)
            index.append(offset, position)
            entries.append((offset, position))

    def cut() -> None:
        offset = rng.randrange(BASE, entries[-1][0] + 2) if entries else BASE
        index.truncate_to(offset)
        entries[:] = [entry for entry in entries if entry[0] < offset]

    steps: list[Callable[[], None]] = [grow, grow, cut, index.write]
    for _ in range(12):
        rng.choice(steps)()
        last = entries[-1] if entries else (BASE, 0)
        start = rng.randrange(BASE, last[0] + 50)
        for target in [*(rng.randrange(BASE, last[0] + 50) for _ in range(20)), *range(start, start + 400, 20)]:
            assert index.floor(target) == expected(entries, 0, target)
        for target in (rng.randrange(0, last[1] + 50) for _ in range(20)):
            assert index.floor_of_position(target) == expected(entries, 1, target)


@pytest.mark.parametrize("seed", range(examples(4)))
def test_entry_of_an_earlier_offset_drops_those_of_bytes_that_the_segment_has_lost(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    (tmp_path / f"{BASE:020}.index").write_bytes(b"")
    index = OffsetIndex(PartitionDirectory(str(tmp_path)), BASE)
    entries: list[tuple[int, int]] = []
    for number in range(rng.randrange(1, ENTRIES)):
        entries.append((BASE + 10 * number, 100 * number))
        index.append(*entries[-1])
    if rng.random() < 0.5:
        index.write()
    offset = rng.randrange(BASE, entries[-1][0] + 1)
    position = max((one[1] for one in entries if one[0] < offset), default=0) + rng.randrange(1, 500)
    index.append(offset, position)
    entries = [*(one for one in entries if one[0] < offset), (offset, position)]
    assert len(index) == len(entries) and index.last_offset == offset
    for target in (rng.randrange(BASE, offset + 50) for _ in range(200)):
        assert index.floor(target) == expected(entries, 0, target)


def test_entries_read_before_a_truncation_are_not_those_after_it(tmp_path: Path) -> None:
    """An older log is written over a newer one: its timestamps are those of the file, not of what was read before."""
    (tmp_path / f"{BASE:020}.timeindex").write_bytes(b"")
    index = TimeIndex(PartitionDirectory(str(tmp_path)), BASE)

    def grow(start: int, offsets: range) -> None:
        for offset in offsets:
            index.append(start + offset, offset)

    grow(1_000_000, range(BASE, BASE + 50))
    index.write()
    assert index.floor(1_000_000 + BASE + 10) == BASE + 10
    index.clear()
    grow(0, range(BASE, BASE + 50))
    index.write()
    grow(0, range(BASE + 50, BASE + 60))
    index.truncate_to(BASE + 55)
    assert (index.last_timestamp, index.last_offset) == (BASE + 54, BASE + 54)
    assert index.floor(BASE + 10) == BASE + 10


@pytest.mark.parametrize(
    ("offset", "position"),
    [(BASE - 1, 0), (BASE + 3, 0), (BASE + 4, 100), (BASE + 9, 100), (BASE + 10, 200), (BASE + 99, 300)],
)
@pytest.mark.parametrize("is_written", [True, False])
def test_floor_is_the_position_of_the_last_entry_not_above(
    offset: int, position: int, is_written: bool, tmp_path: Path
) -> None:
    (tmp_path / f"{BASE:020}.index").write_bytes(b"")
    index = OffsetIndex(PartitionDirectory(str(tmp_path)), BASE)
    for number, relative in enumerate((4, 10, 20), 1):
        index.append(BASE + relative, number * 100)
    if is_written:
        index.write()
    assert index.floor(offset) == position
    assert [index.floor_of_position(one) for one in (0, 99, 100, 199, 300, 999)] == [0, 0, 100, 100, 300, 300]
