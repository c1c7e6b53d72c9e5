"""The segments of a log: which one has an offset, and how they are inserted, corrected, removed and noted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.files.partition_directory import PartitionDirectory
from odradek.storage.log.config import LogConfig
from odradek.storage.segments.aborted import (
    AbortedTransaction,
    append_aborted,
    plausible_aborted,
    read_aborted,
    replace_aborted,
    truncate_aborted,
)
from odradek.storage.segments.damage import DamagedRange

from tests.storage.conftest import NOW_MS, Logbook

DELAY_MS = 1000


@pytest.fixture
def log(logbook: Logbook) -> Any:
    """Returns a log of four segments of two batches each, and an empty active one."""
    log = logbook.open(LogConfig(file_delete_delay_ms=DELAY_MS))
    for _ in range(4):
        logbook.append(log, b"a", b"b")
        logbook.append(log, b"c")
        log.roll(NOW_MS)
    assert [one.base_offset for one in log.segments] == [0, 3, 6, 9, 12]
    return log


def test_empty_segment_is_not_rolled(log: Any) -> None:
    active = log.active
    assert log.roll(NOW_MS) is active and len(log.segments) == 5


@pytest.mark.parametrize(("offset", "base"), [(0, 0), (2, 0), (3, 3), (5, 3), (11, 9), (12, 12), (99, 12)])
def test_segment_of_an_offset_is_the_last_that_begins_there_or_before(log: Any, offset: int, base: int) -> None:
    assert log.segment_of(offset).base_offset == base


@pytest.mark.parametrize(
    ("base", "most", "before"), [(0, 8, []), (3, 8, [0]), (9, 2, [3, 6]), (9, 3, [0, 3, 6]), (12, 1, [9]), (9, 0, [])]
)
def test_segments_before_one_are_its_neighbours(log: Any, base: int, most: int, before: list[int]) -> None:
    assert [one.base_offset for one in log.segments_before(base, most)] == before


def test_files_of_removed_segments_go_after_a_delay(log: Any, logbook: Logbook) -> None:
    log.remove_first(2, NOW_MS, defer=True)
    assert log.log_start_offset == 6 and [one.base_offset for one in log.segments] == [6, 9, 12]
    assert log.has_removed_segments and (logbook.path / f"{0:020}.log").exists()
    log._free_names()
    deleted = sorted(one.name for one in logbook.path.glob("*.log.deleted"))
    assert deleted == [f"{0:020}.log.deleted", f"{3:020}.log.deleted"]
    assert log.delete_scheduled(NOW_MS + DELAY_MS - 1) == 2
    assert log.delete_scheduled(NOW_MS + DELAY_MS) == 0 and not log.has_removed_segments
    assert not list(logbook.path.glob("*.deleted"))


def cleaned(logbook: Logbook, base: int) -> None:
    """Makes the files of a segment beside the log, of those that the log has there."""
    for suffix in (".log", ".index", ".timeindex"):
        source = logbook.path / f"{base:020}{suffix}"
        (logbook.path / f"{base:020}{suffix}.cleaned").write_bytes(source.read_bytes() if source.exists() else b"")


def lost(log: Any, number: int) -> bytes:
    """Removes a segment from the log, as a start does that does not find its file. Returns its bytes."""
    segment = log.segments.pop(number)
    log._bases.pop(number)
    data = Path(segment.path).read_bytes()
    segment.delete()
    return data


@pytest.mark.parametrize(("number", "base"), [(0, 0), (1, 3), (3, 9)])
def test_segment_is_inserted_where_none_is(log: Any, logbook: Logbook, number: int, base: int) -> None:
    data = lost(log, number)
    (logbook.path / f"{base:020}.log.cleaned").write_bytes(data)
    for suffix in (".index", ".timeindex"):
        (logbook.path / f"{base:020}{suffix}.cleaned").write_bytes(b"")
    damaged = DamagedRange(f"{base:020}.log", 0, 0, base, base + 3, "the file is gone")
    assert log.add_damage([damaged]) == [damaged] and log.add_damage([damaged]) == []
    assert not log.insert(base, base + 4, NOW_MS), "it would overlap the next one"
    assert log.insert(base, base + 3, NOW_MS)
    assert [one.base_offset for one in log.segments] == [0, 3, 6, 9, 12]
    assert log.segments[number].next_offset == base + 3 and not log.damage
    assert not log.insert(base, base + 3, NOW_MS), "there is one by now"
    assert not log.insert(12, 13, NOW_MS), "only below the active one"
    assert [value for _, value in logbook.values(log)] == [b"a", b"b", b"c"] * 4


def test_compacted_segment_takes_the_place_of_its_sources(log: Any, logbook: Logbook) -> None:
    sources = log.segments[1:3]
    cleaned(logbook, 3)
    assert not log.replace(3, log.segments[2:4], NOW_MS)
    assert not log.replace(4, sources, NOW_MS)
    assert not log.replace(0, sources, NOW_MS)
    damaged = DamagedRange(f"{6:020}.log", 0, 10, 6, 9, "bad CRC")
    log.add_damage([damaged])
    assert log.segments[2].holes == [(0, 10)] and log.segments[1].holes is None
    assert log.replace(3, sources, NOW_MS)
    assert [(one.base_offset, one.next_offset) for one in log.segments] == [(0, 3), (3, 9), (9, 12), (12, 12)]
    assert not log.damage and log.has_removed_segments
    assert [one.name for one in logbook.path.glob("*.cleaned")] == []


def test_index_of_aborted_transactions_is_written_anew_if_it_is_wrong(log: Any) -> None:
    segment, right = log.segments[1], [AbortedTransaction(7, 3, 4, 5)]
    newer = AbortedTransaction(8, 3, 5, 6)
    append_aborted(log.directory, 3, AbortedTransaction(9, 3, 4, 0))
    append_aborted(log.directory, 3, newer)
    segment.has_aborted = True
    assert not log.correct_aborted(segment, right, 5, is_wrong=False)
    assert log.correct_aborted(segment, right, 5, is_wrong=True)
    assert read_aborted(log.directory, 3) == [*right, newer] and segment.has_aborted is None
    assert log.correct_aborted(segment, right, 6, is_wrong=True)
    assert read_aborted(log.directory, 3) == right
    append_aborted(log.directory, 3, AbortedTransaction(9, 3, 99, 0))
    assert log.correct_aborted(segment, right, 6, is_wrong=False), "an entry of another segment cannot be right"
    assert read_aborted(log.directory, 3) == right


def test_log_is_idle_when_it_has_not_grown_since_the_last_look(log: Any, logbook: Logbook) -> None:
    assert [log.is_idle(), log.is_idle(), log.is_idle()] == [False, True, True]
    logbook.append(log, b"x")
    assert [log.is_idle(), log.is_idle()] == [False, True]
    log.noted_end = log.log_end_offset
    assert not log.is_idle(), "it is noted already"
    assert log.delete_scheduled(NOW_MS) == 0 and not log.is_idle() and log.is_idle()


@pytest.mark.parametrize(("offset", "changes"), [(0, False), (1, True), (12, True)])
def test_start_of_the_log_moves_forward_only(log: Any, offset: int, changes: bool) -> None:
    assert log.advance_log_start_offset(offset) == changes
    assert log.log_start_offset == offset and log.recovery_point >= offset
    assert not log.advance_log_start_offset(offset)


def test_truncation_changes_the_generation_and_what_was_flushed(log: Any) -> None:
    log.flush(NOW_MS)
    generation = log.generation
    log.truncate_to(12, NOW_MS)
    assert log.generation == generation and log.recovery_point == 12
    log.truncate_to(5, NOW_MS)
    assert (log.log_end_offset, log.recovery_point) == (5, 5) and log.generation > generation
    generation = log.generation
    log.truncate_to(3, NOW_MS)
    assert log.log_end_offset == 3 and log.generation > generation
    log.truncate_fully_and_start_at(40, NOW_MS, 30)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (30, 40, 3)


def test_slice_of_a_closed_segment_is_unverified_until_its_file_was_verified(log: Any, logbook: Logbook) -> None:
    logbook.append(log, b"x")
    assert [log.read(offset, 1 << 20).is_unverified for offset in (0, 9, 12)] == [True, True, False]
    log.segments[0].is_verified = True
    assert [log.read(offset, 1 << 20).is_unverified for offset in (0, 3)] == [False, True]


# ---- a log that begins anew


@pytest.mark.parametrize(
    ("is_tiered", "start", "epochs"),
    [
        (False, None, []),
        (False, 30, []),
        (False, 40, []),
        (True, None, []),
        (True, 40, []),
        (True, 39, [(0, 0), (2, 3)]),
        (True, 30, [(0, 0), (2, 3)]),
    ],
)
def test_log_that_begins_anew_keeps_the_epochs_of_its_remote_part_only(
    logbook: Logbook, is_tiered: bool, start: int | None, epochs: list[tuple[int, int]]
) -> None:
    log = logbook.open(LogConfig(remote_storage=is_tiered))
    logbook.append(log, b"a", b"b", b"c", leader_epoch=0, producer_id=0, producer_epoch=0, base_sequence=0)
    log.roll(NOW_MS)
    logbook.append(log, b"d", leader_epoch=2)
    log.flush(NOW_MS)
    assert [one.name for one in logbook.path.glob("*.snapshot")] == [f"{3:020}.snapshot"]
    log.truncate_fully_and_start_at(40, NOW_MS, start)
    assert (log.log_start_offset, log.log_end_offset) == (40 if start is None else start, 40)
    assert log.epochs.entries() == epochs
    assert list(logbook.path.glob("*.snapshot")) == [], "they are of records that are gone"
    assert log.producers.by_id == {} and log.producers.end_offset == 40
    assert [one.base_offset for one in log.segments] == [40] and log.size == 0
    assert logbook.append(log, b"e", leader_epoch=5) == logbook.read_all(log, 40)


def test_epochs_at_the_new_start_of_a_log_and_behind_it_go(logbook: Logbook) -> None:
    log = logbook.open(LogConfig(remote_storage=True))
    for epoch in range(3):
        logbook.append(log, b"a", b"b", leader_epoch=epoch)
    log.truncate_fully_and_start_at(2, NOW_MS, 1)
    assert log.epochs.entries() == [(0, 0)]


@pytest.mark.parametrize(
    ("offset", "snapshots"), [(13, [3, 6, 9, 12]), (12, [3, 6, 9, 12]), (11, [3, 6, 9]), (6, [3, 6]), (5, [3])]
)
def test_truncation_drops_the_snapshots_behind_the_new_end(
    log: Any, logbook: Logbook, offset: int, snapshots: list[int]
) -> None:
    logbook.append(log, b"x", b"y")
    log.truncate_to(offset, NOW_MS)
    assert sorted(int(one.stem) for one in logbook.path.glob("*.snapshot")) == snapshots


def test_log_without_records_has_no_files(logbook: Logbook) -> None:
    log = logbook.open(LogConfig())
    assert not log.has_files
    logbook.append(log, b"a")
    assert log.has_files
    log.truncate_to(0, NOW_MS)
    assert log.has_files and (logbook.path / f"{0:020}.log").exists()


def test_segment_that_cannot_be_inserted_fails_its_log_directory(log: Any, logbook: Logbook) -> None:
    lost(log, 1)
    with pytest.raises(LogDirectoryFailure, match="inserting a segment"):
        log.insert(3, 6, NOW_MS)
    assert [one.base_offset for one in log.segments] == [0, 6, 9, 12]


# ---- entries of aborted transactions


@pytest.mark.parametrize(
    ("entry", "is_right"),
    [
        ((0, 3, 5, 5), True),
        ((0, 0, 3, 0), True),
        ((0, 0, 4, 5), True),
        ((-1, 3, 5, 5), False),
        ((0, -1, 5, 5), False),
        ((0, 5, 5, 5), False),
        ((0, 4, 5, 5), True),
        ((0, 3, 5, -1), False),
        ((0, 3, 5, 6), True),
        ((0, 3, 5, 7), False),
        ((0, 0, 2, 0), False),
        ((0, 3, 6, 6), False),
    ],
)
def test_entry_of_an_aborted_transaction_is_right_when_its_offsets_can_be(
    tmp_path: Path, entry: tuple[int, int, int, int], is_right: bool
) -> None:
    """The segment has the offsets from 3 up to 6."""
    directory = PartitionDirectory(str(tmp_path))
    append_aborted(directory, 3, AbortedTransaction(*entry))
    assert plausible_aborted(directory, 3, 6) == ([AbortedTransaction(*entry)] if is_right else None)


def test_markers_of_aborted_transactions_ascend(tmp_path: Path) -> None:
    directory = PartitionDirectory(str(tmp_path))
    first, second = AbortedTransaction(0, 0, 3, 0), AbortedTransaction(1, 1, 4, 0)
    assert plausible_aborted(directory, 3, 6) == []
    for entries, is_right in (([first, second], True), ([second, first], False), ([first, first], False)):
        replace_aborted(directory, 3, entries)
        assert plausible_aborted(directory, 3, 6) == (entries if is_right else None)
    path = tmp_path / f"{3:020}.txnindex"
    replace_aborted(directory, 3, [first])
    content = path.read_bytes()
    for wrong in (content + b"x", content[:-1], b"\0\1" + content[2:]):
        path.write_bytes(wrong)
        assert plausible_aborted(directory, 3, 6) is None
    path.write_bytes(content + content[:10])
    assert read_aborted(directory, 3) == [first], "a torn entry is not read"
    replace_aborted(directory, 3, [])
    assert not path.exists()


@pytest.mark.parametrize(("offset", "kept"), [(3, 0), (4, 1), (5, 2), (9, 2)])
def test_entries_whose_markers_are_truncated_go(tmp_path: Path, offset: int, kept: int) -> None:
    directory = PartitionDirectory(str(tmp_path))
    entries = [AbortedTransaction(0, 0, 3, 0), AbortedTransaction(1, 1, 4, 0)]
    replace_aborted(directory, 3, entries)
    truncate_aborted(directory, 3, offset)
    assert read_aborted(directory, 3) == entries[:kept]
    assert (tmp_path / f"{3:020}.txnindex").exists() == (kept > 0)
