"""Deletion of segments by time, by size, and below the log's start."""

from __future__ import annotations

import dataclasses
import os

import pytest
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import OffsetOutOfRange
from odradek.storage.log.retention import delete_old_segments

KEEP = LogConfig(retention_ms=-1, segment_bytes=150, file_delete_delay_ms=1000)


@pytest.fixture
def log(logbook):
    """Returns a log of five segments with one record each, one second apart. The last one is active."""
    log = logbook.open(KEEP)
    for number in range(5):
        logbook.append(log, b"x" * 50, at=logbook.now_ms + number * 1000)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2, 3, 4]
    return log


def bases(log):
    return [segment.base_offset for segment in log.segments]


def set_config(log, **changes):
    log.config = dataclasses.replace(log.config, **changes)


def test_segments_older_than_retention_ms_go(log, logbook):
    set_config(log, retention_ms=10_000)
    assert delete_old_segments(log, logbook.now_ms + 11_000, 5) == 1
    assert bases(log) == [1, 2, 3, 4]
    assert log.log_start_offset == 1
    assert delete_old_segments(log, logbook.now_ms + 13_001, 5) == 3


def test_the_active_segment_goes_too_when_its_time_has_come(log, logbook):
    set_config(log, retention_ms=10_000)
    assert delete_old_segments(log, logbook.now_ms + 100_000, 5) == 5
    assert (bases(log), log.size, log.log_start_offset, log.log_end_offset) == ([5], 0, 5, 5)
    assert delete_old_segments(log, logbook.now_ms + 1_000_000, 5) == 0
    logbook.append(log, b"again")
    assert logbook.values(log) == [(5, b"again")]


def test_nothing_at_or_past_the_high_watermark_goes(log, logbook):
    set_config(log, retention_ms=10_000)
    assert delete_old_segments(log, logbook.now_ms + 100_000, 3) == 3
    assert bases(log) == [3, 4]
    assert delete_old_segments(log, logbook.now_ms + 100_000, 3) == 0


def test_segments_in_excess_of_retention_bytes_go(log, logbook):
    size = log.segments[0].size
    set_config(log, retention_bytes=size * 3)
    assert delete_old_segments(log, logbook.now_ms, 5) == 2
    assert log.size == size * 3
    set_config(log, retention_bytes=size * 3 - 1)
    assert delete_old_segments(log, logbook.now_ms, 5) == 0, "a whole segment is not in excess"
    set_config(log, retention_bytes=0)
    assert delete_old_segments(log, logbook.now_ms, 5) == 3


def test_segments_below_the_log_start_go_also_from_a_compacted_log(log, logbook):
    set_config(log, compact=True, delete=False, retention_ms=0, retention_bytes=0)
    assert delete_old_segments(log, logbook.now_ms + 100_000, 5) == 0
    log.advance_log_start_offset(3)
    assert delete_old_segments(log, logbook.now_ms, 5) == 3
    assert bases(log) == [3, 4]
    log.advance_log_start_offset(5)
    assert delete_old_segments(log, logbook.now_ms, 5) == 1
    assert bases(log) == [4], "the active segment does not go by this"


def test_records_without_time_are_as_old_as_their_file(logbook):
    log = logbook.open(dataclasses.replace(KEEP, retention_ms=10_000))
    for offset in range(2):
        log.append(logbook.batch(offset, [b"x" * 80], at=-1), None, logbook.now_ms)
    os.utime(log.segments[0].path, (logbook.now_ms / 1000, logbook.now_ms / 1000))
    os.utime(log.segments[1].path, (logbook.now_ms / 1000 + 60, logbook.now_ms / 1000 + 60))
    assert delete_old_segments(log, logbook.now_ms + 10_000, 2) == 0
    assert delete_old_segments(log, logbook.now_ms + 10_001, 2) == 1


def test_files_of_removed_segments_wait_before_they_go(log, logbook):
    set_config(log, retention_ms=10_000)
    snapshots = sorted(path.name for path in logbook.path.glob("*.snapshot"))
    delete_old_segments(log, logbook.now_ms + 12_000, 5)
    renamed = sorted(path.name for path in logbook.path.glob("*.log.deleted"))
    assert renamed == ["00000000000000000000.log.deleted", "00000000000000000001.log.deleted"]
    assert sorted(path.name for path in logbook.path.glob("*.snapshot")) == snapshots[1:], "that of offset 1 went"
    assert log.delete_scheduled(logbook.now_ms + 12_999) == 2
    assert log.delete_scheduled(logbook.now_ms + 13_000) == 0
    assert not list(logbook.path.glob("*.deleted"))


def test_reader_of_a_removed_segment_may_finish(log, logbook):
    piece = log.read(0, 1000)
    whole = piece.bytes()
    set_config(log, retention_ms=10_000)
    delete_old_segments(log, logbook.now_ms + 100_000, 5)
    log.delete_scheduled(logbook.now_ms + 1_000_000)
    assert piece.bytes() == whole


def test_removed_segments_do_not_come_back_after_a_crash(log, logbook):
    set_config(log, retention_ms=10_000)
    delete_old_segments(log, logbook.now_ms + 12_000, 5)
    again = logbook.open(KEEP)
    assert (bases(again), again.log_start_offset) == ([2, 3, 4], 2)


# ---- files that a thread renames later


def remove_later(log, logbook, count=3):
    log.remove_first(count, logbook.now_ms, defer=True)
    assert not list(logbook.path.glob("*.deleted")), "the files keep their names"


def test_segments_removed_later_are_not_read_any_more(log, logbook):
    piece = log.read(0, 1000)
    whole = piece.bytes()
    remove_later(log, logbook)
    assert (bases(log), log.log_start_offset) == ([3, 4], 3)
    with pytest.raises(OffsetOutOfRange):
        log.read(2, 1000)
    assert piece.bytes() == whole, "a reader may finish"
    assert log.delete_scheduled(logbook.now_ms) == 3 and log.has_removed_segments
    assert len(list(logbook.path.glob("*.log.deleted"))) == 3
    assert log.delete_scheduled(logbook.now_ms + 1000) == 0 and not log.has_removed_segments
    assert not list(logbook.path.glob("*.deleted"))


def test_clean_close_leaves_no_removed_segment(log, logbook):
    remove_later(log, logbook)
    log.close(logbook.now_ms)
    again = logbook.open(KEEP, clean=True)
    assert (bases(again), again.log_start_offset) == ([3, 4], 3)


def test_crash_before_thread_renames_brings_whole_segments_back(log, logbook):
    remove_later(log, logbook)
    again = logbook.open(KEEP)
    assert (bases(again), again.log_start_offset, again.log_end_offset) == ([0, 1, 2, 3, 4], 0, 5)
    assert not again.damage.ranges and len(logbook.values(again)) == 5
    again.remove_first(3, logbook.now_ms)
    assert bases(again) == [3, 4]


def test_new_segment_with_name_of_removed_one_is_kept(log, logbook):
    remove_later(log, logbook)
    log.truncate_fully_and_start_at(2, logbook.now_ms)
    logbook.append(log, b"new")
    log.delete_scheduled(logbook.now_ms + 1_000_000)
    assert logbook.values(log) == [(2, b"new")]
    again = logbook.open(KEEP)
    assert logbook.values(again) == [(2, b"new")]


def test_thread_that_renames_leaves_names_of_moved_directory(log, logbook):
    remove_later(log, logbook)
    log.move_to(f"{logbook.path}-moved")
    moved = logbook.path.with_name(f"{logbook.path.name}-moved")
    assert len(list(moved.glob("*.log.deleted"))) == 3
    log.delete_scheduled(logbook.now_ms + 1_000_000)
    assert not list(moved.glob("*.deleted")) and len(list(moved.glob("*.log"))) == 2
