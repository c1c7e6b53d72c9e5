"""The damaged ranges of a log: their order, their merging, and the file that stores them."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.storage.files.open_files import PartitionDirectory
from odradek.storage.segments.damage import FILE_NAME, MOST_RANGES, Damage, DamagedRange

SEGMENT = "00000000000000000000.log"


def damaged(first: int, following: int, position: int = 0, size: int = 100, file: str = SEGMENT) -> DamagedRange:
    return DamagedRange(file, position, size, first, following, "wrong CRC")


def test_ranges_are_found_by_offset_in_any_order_of_adding(tmp_path: Path) -> None:
    damage = Damage(PartitionDirectory(str(tmp_path)))
    for one in (damaged(20, 30), damaged(0, 5), damaged(40, 41)):
        assert damage.add(one)
    assert [one.first_offset for one in damage] == [0, 20, 40]
    assert damage.covers(4) == damaged(0, 5) and damage.covers(5) is None and damage.covers(29) == damaged(20, 30)
    assert damage.following(5) == damaged(20, 30) and damage.following(25) == damaged(20, 30)
    assert damage.following(41) is None


def test_overlapping_ranges_of_a_file_are_joined(tmp_path: Path) -> None:
    damage = Damage(PartitionDirectory(str(tmp_path)))
    damage.add(damaged(0, 5, 0, 100))
    damage.add(damaged(8, 9, 300, 50))
    assert not damage.add(damaged(1, 3, 20, 10))
    assert damage.add(damaged(4, 12, 90, 400))
    assert list(damage) == [damaged(0, 12, 0, 490)]


def test_healed_ranges_leave_the_registry_and_the_file(tmp_path: Path) -> None:
    damage = Damage(PartitionDirectory(str(tmp_path)))
    damage.add(damaged(0, 5))
    damage.add(damaged(20, 30))
    assert damage.save() and not damage.save()
    assert list(Damage.load(PartitionDirectory(str(tmp_path)))) == list(damage)
    assert damage.healed(0, 25) == [damaged(0, 5)]
    assert damage.healed(20, 30) == [damaged(20, 30)] and not damage
    damage.save()
    assert not (tmp_path / FILE_NAME).exists()


def test_ranges_outside_of_the_log_are_forgotten(tmp_path: Path) -> None:
    damage = Damage(PartitionDirectory(str(tmp_path)))
    for one in (damaged(0, 5), damaged(20, 30), damaged(40, 50)):
        damage.add(one)
    damage.restrict(5, 25)
    assert list(damage) == [damaged(20, 25)]


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"0\n", b"0\n2\n1 2 3 4 a b\n", b"9\n0\n", b"0\n1\n1 2 3\n"])
def test_file_that_cannot_be_understood_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    assert not Damage.load(PartitionDirectory(str(tmp_path)))


def test_ranges_have_a_limit(tmp_path: Path) -> None:
    damage = Damage(PartitionDirectory(str(tmp_path)))
    for number in range(MOST_RANGES + 5):
        damage.add(damaged(10 * number, 10 * number + 1, 1000 * number))
    assert len(damage) == MOST_RANGES and damage.left_out == 5
