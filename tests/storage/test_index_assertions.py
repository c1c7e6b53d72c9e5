"""Indexes of a segment: a wrong entry is not added, and wrong bytes of a file are errors, rather than assertions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.storage.files.open_files import OpenFiles
from odradek.storage.files.partition_directory import PartitionDirectory
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.storage.log.log_check import check_log
from odradek.storage.log.noted import load_noted
from odradek.storage.segments.damage import SegmentSuspected
from odradek.storage.segments.index import MAX_RELATIVE_OFFSET, OffsetIndex, TimeIndex
from odradek.storage.segments.segment import Segment

from tests.storage.conftest import NOW_MS, Logbook

BASE = 1_000
NAME = f"{BASE:020d}"
#: Each batch but the first of a segment has an entry.
CONFIG = LogConfig(index_interval_bytes=0)


def offset_index(folder: Path, *entries: tuple[int, int]) -> OffsetIndex:
    (folder / f"{NAME}.index").write_bytes(b"".join(OffsetIndex.ENTRY.pack(*entry) for entry in entries))
    return OffsetIndex(PartitionDirectory(str(folder)), BASE)


def time_index(folder: Path, *entries: tuple[int, int]) -> TimeIndex:
    (folder / f"{NAME}.timeindex").write_bytes(b"".join(TimeIndex.ENTRY.pack(*entry) for entry in entries))
    return TimeIndex(PartitionDirectory(str(folder)), BASE)


@pytest.mark.parametrize("offset", [BASE - 1, BASE + MAX_RELATIVE_OFFSET + 1])
def test_offset_outside_of_the_segment_is_not_indexed(tmp_path: Path, offset: int) -> None:
    offsets, times = offset_index(tmp_path), time_index(tmp_path)
    with pytest.raises(AssertionError, match=f"no offset {offset}"):
        offsets.append(offset, 100)
    with pytest.raises(AssertionError, match=f"no offset {offset}"):
        times.append(NOW_MS, offset)
    assert (len(offsets), offsets.last_offset, len(times), times.last_timestamp) == (0, BASE, 0, -1)


@pytest.mark.parametrize("offset", [BASE, BASE + MAX_RELATIVE_OFFSET])
def test_first_and_last_offset_of_a_segment_are_indexed(tmp_path: Path, offset: int) -> None:
    offsets, times = offset_index(tmp_path), time_index(tmp_path)
    offsets.append(offset, 100)
    times.append(NOW_MS, offset)
    assert (offsets.last_offset, times.last_offset) == (offset, offset)


def test_position_before_that_of_the_last_entry_is_not_indexed(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.append(BASE + 1, 100)
    with pytest.raises(AssertionError, match="99 after 100"):
        index.append(BASE + 2, 99)
    assert (len(index), index.last_offset, index.last_position) == (1, BASE + 1, 100)


def test_offset_before_that_of_the_last_timestamp_is_not_indexed(tmp_path: Path) -> None:
    index = time_index(tmp_path)
    index.append(NOW_MS, BASE + 5)
    with pytest.raises(AssertionError, match=f"offset {BASE + 4} after {BASE + 5}"):
        index.append(NOW_MS + 1, BASE + 4)
    assert (len(index), index.last_offset, index.last_timestamp) == (1, BASE + 5, NOW_MS)


def test_entries_of_a_file_limit_no_later_ones(tmp_path: Path) -> None:
    """A file may have any bytes."""
    offsets = offset_index(tmp_path, (1, 2_000_000_000))
    offsets.append(BASE + 2, 100)
    times = time_index(tmp_path, (5, 2_000_000_000))
    times.append(6, BASE + 2)
    assert (len(offsets), len(times)) == (2, 2)


def written(logbook: Logbook, count: int) -> Log:
    log = logbook.open(CONFIG)
    for number in range(count):
        logbook.append(log, b"value %d" % number)
    return log


@pytest.mark.parametrize("relative", [3, 4, MAX_RELATIVE_OFFSET])
def test_time_index_that_ends_behind_its_segment_is_built_again(logbook: Logbook, relative: int) -> None:
    log = written(logbook, 3)
    log.close(NOW_MS)
    (path,) = logbook.path.glob("*.timeindex")
    path.write_bytes(TimeIndex.ENTRY.pack(NOW_MS + 1_000_000, relative))
    segment = Segment.existing(PartitionDirectory(str(logbook.path)), OpenFiles(), 0, NOW_MS)
    segment.next_offset = 3
    assert (segment.largest_timestamp(), segment.offset_of_max_timestamp) == (NOW_MS + 2, 2)
    batch = logbook.batch(3, [b"goes on"])
    segment.append(batch, [header for _, header in iter_headers(batch)], 0)
    segment.write_indexes()
    assert segment.time_index.last_offset == 3


@pytest.mark.parametrize("offset", [-1, 3, 1 << 40])
def test_note_with_an_offset_outside_of_its_segment_gives_no_timestamp(logbook: Logbook, offset: int) -> None:
    log = written(logbook, 3)
    log.close(NOW_MS)
    note = log.to_note()
    assert note is not None and note.offset_of_max_timestamp == 2
    noted = note._replace(max_timestamp=NOW_MS + 1_000_000, offset_of_max_timestamp=offset)
    loaded = load_noted(PartitionDirectory(str(logbook.path)), CONFIG, OpenFiles(), NOW_MS, noted, 0, 3)
    assert loaded.segments[-1].largest_timestamp() == NOW_MS + 2


@pytest.mark.parametrize("base_offset", [-1, 7, 1 << 40])
def test_truncation_before_a_batch_of_other_offsets_finds_damage(logbook: Logbook, base_offset: int) -> None:
    """No CRC covers the base offset of a batch."""
    log = written(logbook, 3)
    size = log.active.size // 3
    with Path(log.active.path).open("r+b") as file:
        file.seek(size)
        file.write(struct.pack(">q", base_offset))
    with pytest.raises(SegmentSuspected):
        log.active.cut_at(2)
    log.truncate_to(2, NOW_MS)
    assert log.log_end_offset == 1 and log.active.size == size


@pytest.mark.parametrize("gap", [MAX_RELATIVE_OFFSET - 1, MAX_RELATIVE_OFFSET, MAX_RELATIVE_OFFSET + 1, 1 << 40])
def test_batches_that_no_segment_has_together_are_appended(logbook: Logbook, gap: int) -> None:
    """A follower gets them in one response, where a compaction has removed all between them."""
    log = written(logbook, 1)
    offsets = [1, 1 + gap, 2 + gap]
    log.append(b"".join(logbook.batch(offset, [b"%d" % offset]) for offset in offsets), None, NOW_MS)
    assert [offset for offset, _ in logbook.values(log)] == [0, *offsets]
    check_log(log)
    log.close(NOW_MS)
    assert [offset for offset, _ in logbook.values(logbook.open(CONFIG))] == [0, *offsets]


def end_the_times_behind_the_segment(segment: Segment) -> None:
    segment.time_index.last_offset = segment.next_offset


def end_the_times_before_the_segment(segment: Segment) -> None:
    segment.time_index.last_offset = segment.base_offset - 1


def forget_the_largest_timestamp(segment: Segment) -> None:
    segment.max_timestamp = segment.time_index.last_timestamp - 1


@pytest.mark.parametrize(
    "harm", [end_the_times_behind_the_segment, end_the_times_before_the_segment, forget_the_largest_timestamp]
)
def test_check_of_a_log_finds_times_that_are_not_of_their_segment(
    logbook: Logbook, harm: Callable[[Segment], None]
) -> None:
    log = written(logbook, 3)
    check_log(log)
    harm(log.active)
    with pytest.raises(AssertionError, match="time index"):
        check_log(log)
