"""The damaged ranges of a log: their order, their merging, and the file that stores them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from odradek.protocol.records.batch import read_header
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.files.partition_directory import PartitionDirectory
from odradek.storage.segments.damage import FILE_NAME, MOST_RANGES, Damage, DamagedRange, SegmentSuspected
from odradek.storage.segments.poison import Poisoned, fault_of, readable_records

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


OTHER = "00000000000000000100.log"


@pytest.mark.parametrize(
    ("found", "is_new", "ranges"),
    [
        ((5, 5), False, [(10, 20)]),
        ((0, 10), True, [(0, 10), (10, 20)]),
        ((20, 21), True, [(10, 20), (20, 21)]),
        ((10, 20), False, [(10, 20)]),
        ((11, 19), False, [(10, 20)]),
        ((9, 11), True, [(9, 20)]),
        ((19, 21), True, [(10, 21)]),
        ((10, 21), True, [(10, 21)]),
        ((9, 20), True, [(9, 20)]),
        ((0, 99), True, [(0, 99)]),
    ],
)
def test_range_is_joined_with_those_that_it_overlaps(
    tmp_path: Path, found: tuple[int, int], is_new: bool, ranges: list[tuple[int, int]]
) -> None:
    damage = Damage(PartitionDirectory(str(tmp_path)))
    damage.add(damaged(10, 20, 500, 50))
    assert damage.add(damaged(*found, 530, 40)) == is_new
    assert [(one.first_offset, one.next_offset) for one in damage] == ranges
    if len(ranges) == 1 and is_new:
        (one,) = damage
        assert (one.position, one.size) == (500, 70)


def test_range_across_files_has_the_place_of_its_first_part(tmp_path: Path) -> None:
    damage = Damage(PartitionDirectory(str(tmp_path)))
    damage.add(damaged(100, 110, 0, 50, OTHER))
    damage.add(damaged(90, 105, 700, 9))
    assert list(damage) == [damaged(90, 110, 700, 9)]
    assert damage.in_file(SEGMENT) == list(damage) and damage.in_file(OTHER) == []


@pytest.mark.parametrize(
    ("offset", "covered", "following"),
    [(9, None, 10), (10, 10, 10), (19, 10, 10), (20, None, 30), (30, 30, 30), (39, 30, 30), (40, None, None)],
)
def test_offset_lies_in_a_range_or_before_the_next(
    tmp_path: Path, offset: int, covered: int | None, following: int | None
) -> None:
    damage = Damage(PartitionDirectory(str(tmp_path)))
    damage.add(damaged(10, 20))
    damage.add(damaged(30, 40))
    found = damage.covers(offset), damage.following(offset)
    assert [None if one is None else one.first_offset for one in found] == [covered, following]


@pytest.mark.parametrize(
    ("first", "following", "left"), [(10, 20, 1), (10, 19, 2), (11, 20, 2), (0, 40, 0), (10, 40, 0)]
)
def test_ranges_within_the_healed_offsets_go(tmp_path: Path, first: int, following: int, left: int) -> None:
    damage = Damage(PartitionDirectory(str(tmp_path)))
    damage.add(damaged(10, 20))
    damage.add(damaged(30, 40))
    assert len(damage.healed(first, following)) == 2 - left and len(damage) == left
    assert (damage.covers(10) is None) == (first <= 10 and following >= 20)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 99, [(10, 20), (30, 40)]),
        (19, 99, [(10, 20), (30, 40)]),
        (20, 99, [(30, 40)]),
        (0, 31, [(10, 20), (30, 31)]),
        (0, 30, [(10, 20)]),
        (40, 99, []),
    ],
)
def test_log_that_shrinks_cuts_its_last_range(
    tmp_path: Path, start: int, end: int, expected: list[tuple[int, int]]
) -> None:
    damage = Damage(PartitionDirectory(str(tmp_path)))
    damage.add(damaged(10, 20))
    damage.add(damaged(30, 40))
    damage.restrict(start, end)
    assert [(one.first_offset, one.next_offset) for one in damage] == expected
    assert [damage.covers(first) is not None for first, _ in expected] == [True] * len(expected)


def test_ranges_come_back_as_they_were_saved(tmp_path: Path) -> None:
    damage = Damage(PartitionDirectory(str(tmp_path)))
    damage.add(damaged(0, 1, 7, 8))
    damage.add(damaged(100, 110, 0, 0, OTHER))
    assert damage.save()
    assert (tmp_path / FILE_NAME).read_text() == f"0\n2\n7 8 0 1 {SEGMENT} wrong-CRC\n0 0 100 110 {OTHER} wrong-CRC\n"
    again = Damage.load(PartitionDirectory(str(tmp_path)))
    assert list(again) == list(damage) and not again.save()


@pytest.mark.parametrize(
    ("count", "last_delta", "fault"),
    [
        (3, 2, None),
        (2, 2, "its payload of"),
        (4, 3, "its payload of"),
        (4, 2, "4 records in 3 offsets"),
        (-1, 2, "-1 records in 3 offsets"),
    ],
)
def test_batch_whose_header_disagrees_with_its_records_is_faulty(
    count: int, last_delta: int, fault: str | None
) -> None:
    data = bytearray(encode_batch([Record(number, 5, None, b"v") for number in range(3)]))
    header = read_header(data)._replace(record_count=count, last_offset_delta=last_delta)
    found = fault_of(header, bytes(data))
    assert (found is None) if fault is None else (found is not None and found.startswith(fault))


def test_offsets_of_compacted_batches_ascend_within_the_header() -> None:
    records = [Record(offset, 5, None, b"v") for offset in (10, 12, 15)]
    for last, fault in ((15, False), (99, False)):
        data = encode_batch(records, base_offset=10, last_offset=last)
        assert (fault_of(read_header(data), data) is not None) == fault
        assert [one.offset for one in readable_records(read_header(data), data)] == [10, 12, 15]
    data = encode_batch(records, base_offset=10, last_offset=15)
    short = read_header(data)._replace(last_offset_delta=4)
    assert fault_of(short, data) is not None
    with pytest.raises(Poisoned) as raised:
        readable_records(short, data)
    assert raised.value.batch[:2] == (10, 14)
    for error in (raised.value, SegmentSuspected(7, "words")):
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error) and vars(again) == vars(error)


@pytest.mark.parametrize(
    ("offsets", "is_readable"),
    [((10, 11), True), ((10, 14), True), ((11, 14), True), ((9, 11), False), ((10, 10), False), ((11, 10), False),
     ((10, 15), False)],
)  # fmt: skip
def test_records_have_ascending_offsets_of_their_batch(offsets: tuple[int, int], is_readable: bool) -> None:
    data = encode_batch([Record(offset, 5, None, b"v") for offset in offsets], base_offset=10, last_offset=14)
    assert (fault_of(read_header(data), data) is None) == is_readable
    if is_readable:
        assert tuple(one.offset for one in readable_records(read_header(data), data)) == offsets
    else:
        with pytest.raises(Poisoned, match="a record has offset"):
            readable_records(read_header(data), data)
