"""Decisions of a log at their limits: which files a start keeps, when a flush is due, and which aborts a reader needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.files.open_files import OpenFile, OpenFiles
from odradek.storage.log import log as log_file
from odradek.storage.log.config import LogConfig
from odradek.storage.log.inventory import Inventory, has_transient_files, take_inventory

from tests.storage.conftest import NOW_MS, Logbook


def name(offset: int, suffix: str) -> str:
    return f"{offset:020}{suffix}"


def filled(path: Path, *names: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for one in names:
        (path / one).write_bytes(b"")
    return path


# ---- the files of a partition's directory


def test_inventory_lists_the_files_by_their_kind(tmp_path: Path) -> None:
    log, index, times, aborted = (name(0, suffix) for suffix in (".log", ".index", ".timeindex", ".txnindex"))
    path = filled(
        tmp_path, log, index, times, aborted, name(7, ".log"), name(7, ".index"), name(3, ".snapshot"),
        name(7, ".snapshot"), "leader-epoch-checkpoint", "partition.metadata", "odradek-damage",
    )  # fmt: skip
    found = take_inventory(str(path))
    assert (found.bases, found.snapshots, found.indexed) == ([0, 7], [3, 7], frozenset({0}))
    assert (found.aborted, found.orphans, found.notes) == (frozenset({0}), (), ())
    assert found.has_damage and found.has_epochs
    assert not has_transient_files(str(path))


def test_new_directory_is_made_with_its_parents_and_has_nothing(tmp_path: Path) -> None:
    for path in (tmp_path / "a-0", tmp_path / "b" / "a-0"):
        assert take_inventory(str(path)) == Inventory([], [])
        assert path.is_dir() and path.stat().st_mode & 0o777 == 0o700
    assert take_inventory(str(filled(tmp_path / "c-0", "partition.metadata"))) == Inventory([], [])
    found = take_inventory(str(filled(tmp_path / "d-0", "partition.metadata", name(4, ".log"))))
    assert found.bases == [4] and not found.has_damage and not found.has_epochs


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_index_without_its_log_is_an_orphan_and_goes(tmp_path: Path, suffix: str) -> None:
    path = filled(tmp_path, name(0, suffix), name(7, ".log"), name(7, suffix))
    found = take_inventory(str(path))
    assert (found.bases, found.orphans) == ([7], (0,))
    assert sorted(one.name for one in path.iterdir()) == sorted([name(7, ".log"), name(7, suffix)])


def test_index_of_a_segment_that_was_to_be_deleted_is_no_orphan(tmp_path: Path) -> None:
    path = filled(tmp_path, name(0, ".log.deleted"), name(0, ".index"), name(7, ".log"))
    assert has_transient_files(str(path))
    found = take_inventory(str(path))
    assert (found.bases, found.orphans) == ([7], ())
    assert [one.name for one in path.iterdir()] == [name(7, ".log")]


@pytest.mark.parametrize("suffix", [".tmp", ".deleted", ".cleaned"])
def test_temporary_files_go(tmp_path: Path, suffix: str) -> None:
    path = filled(tmp_path, name(0, ".log"), name(0, f".log{suffix}"), name(3, f".index{suffix}"))
    assert has_transient_files(str(path))
    assert take_inventory(str(path)).bases == [0]
    assert [one.name for one in path.iterdir()] == [name(0, ".log")] and not has_transient_files(str(path))


def test_file_of_another_name_stays(tmp_path: Path) -> None:
    others = ["notes.txt", "0.log", "x" * 20 + ".log", f"{'٣' * 20}.log"]
    path = filled(tmp_path, *others, name(0, ".log"))
    assert take_inventory(str(path)).bases == [0]
    assert sorted(one.name for one in path.iterdir()) == sorted([*others, name(0, ".log")])


def test_directory_in_the_place_of_a_file_is_set_aside(tmp_path: Path) -> None:
    path = filled(tmp_path, name(7, ".log"))
    (path / name(0, ".log")).mkdir()
    found = take_inventory(str(path))
    assert found.bases == [7]
    (note,) = found.notes
    assert "a directory instead of a log file" in note
    assert take_inventory(str(path)).notes == (), "it is set aside once"


def batch(offset: int, count: int = 1, **kind: Any) -> bytes:
    records = [Record(offset + number, NOW_MS, b"k", b"v") for number in range(count)]
    return encode_batch(records, leader_epoch=0, **kind)


def test_swapped_segment_takes_the_place_of_those_that_it_was_made_of(tmp_path: Path) -> None:
    path = filled(tmp_path, *(name(offset, ".log") for offset in (0, 2, 5, 6)), name(5, ".index"), name(2, ".snapshot"))
    (path / name(0, ".log.swap")).write_bytes(batch(0) + batch(4, 2))
    (path / name(0, ".index.swap")).write_bytes(b"")
    found = take_inventory(str(path))
    assert (found.bases, found.snapshots) == ([0, 6], [2])
    assert (path / name(0, ".log")).read_bytes() == batch(0) + batch(4, 2)
    assert not (path / name(5, ".index")).exists() and (path / name(0, ".index")).exists()


def test_empty_swapped_segment_takes_the_place_of_its_own_only(tmp_path: Path) -> None:
    path = filled(tmp_path, name(0, ".log"), name(1, ".log"), name(0, ".log.swap"))
    (path / name(0, ".log")).write_bytes(batch(0))
    assert take_inventory(str(path)).bases == [0, 1]
    assert (path / name(0, ".log")).read_bytes() == b""


@pytest.mark.parametrize(("cleaned", "is_swapped"), [(0, False), (4, True)])
def test_swap_behind_a_cleaning_that_did_not_end_is_dropped(tmp_path: Path, cleaned: int, is_swapped: bool) -> None:
    """A cleaning swaps its segments once all are complete: a `.cleaned` file shows that they were not."""
    path = filled(tmp_path, name(0, ".log"), name(4, ".log"), name(0, ".log.swap"), name(cleaned, ".log.cleaned"))
    (path / name(0, ".log.swap")).write_bytes(batch(0))
    assert take_inventory(str(path)).bases == [0, 4]
    assert (path / name(0, ".log")).read_bytes() == (batch(0) if is_swapped else b"")


# ---- flushes


@pytest.mark.parametrize(
    ("config", "records", "waited_ms", "is_due"),
    [
        ({}, 5, 10**9, False),
        ({"flush_messages": 5}, 4, 0, False),
        ({"flush_messages": 5}, 5, 0, True),
        ({"flush_ms": 100}, 1, 99, False),
        ({"flush_ms": 100}, 1, 100, True),
        ({"flush_ms": 100, "flush_messages": 1}, 0, 1000, False),
    ],
)
def test_flush_is_due_after_so_many_records_or_milliseconds(
    logbook: Logbook, config: dict[str, int], records: int, waited_ms: int, is_due: bool
) -> None:
    log = logbook.open(LogConfig(**config))  # type: ignore[arg-type]
    for number in range(records):
        logbook.append(log, b"%d" % number)
    assert log.flush_due(NOW_MS + waited_ms) == (records if is_due else None)
    log.flush(NOW_MS + waited_ms)
    assert log.recovery_point == records and log.flush_due(NOW_MS + waited_ms) is None
    assert log.prepare_flush() is None and log.prepare_flush(records) is None


def test_rolled_segments_are_flushed(logbook: Logbook) -> None:
    log = logbook.open(LogConfig(segment_bytes=200))
    while len(log.segments) < 3:
        logbook.append(log, b"x" * 50)
    base = log.active.base_offset
    assert log.flush_due(NOW_MS) == base
    pending = log.prepare_flush(base)
    assert pending is not None
    pending.run()
    log.flushed(pending, NOW_MS)
    assert log.recovery_point == base and log.flush_due(NOW_MS) is None and log.is_unflushed


def test_flush_of_what_was_cut_off_does_not_count(logbook: Logbook) -> None:
    log = logbook.open()
    for number in range(3):
        logbook.append(log, b"%d" % number)
    pending = log.prepare_flush()
    assert pending is not None
    pending.run()
    log.truncate_to(1, NOW_MS)
    logbook.append(log, b"other")
    log.flushed(pending, NOW_MS)
    assert log.recovery_point <= 1


def test_flush_of_many_segments_holds_few_files_at_a_time(logbook: Logbook, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of a killed process is flushed as a whole at its next start: it may have more segments than descriptors."""
    log = logbook.open(LogConfig(segment_bytes=200), files=OpenFiles(2))
    while len(log.segments) < 9:
        logbook.append(log, b"x" * 50)
    monkeypatch.setattr(log_file, "MOST_FLUSHED_SEGMENTS", 3)
    before, held, synced = OpenFile.count, [], os.fdatasync

    def counting(fd: int) -> None:
        held.append(OpenFile.count - before)
        synced(fd)

    monkeypatch.setattr(os, "fdatasync", counting)
    pending = log.prepare_flush()
    assert pending is not None and pending.up_to_offset == log.segments[3].base_offset
    log.flush(NOW_MS)
    assert len(held) == 9 and max(held) <= 3 + 2, "those of a flush, and those that the limit allows"
    assert log.recovery_point == log.log_end_offset and log.prepare_flush() is None


# ---- transactions


def sent(log: Any, who: int) -> None:
    data = batch(log.log_end_offset, producer_id=who, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(data, None, NOW_MS)


def ended(log: Any, who: int, *, committed: bool) -> None:
    marker = encode_end_transaction(
        committed, base_offset=log.log_end_offset, timestamp=NOW_MS, producer_id=who, producer_epoch=0,
        coordinator_epoch=0, leader_epoch=0,
    )  # fmt: skip
    log.append(marker, None, NOW_MS)


@pytest.mark.parametrize(
    ("offset", "up_to", "expected"),
    [(0, 1, [0]), (0, 2, [0]), (0, 3, [0, 2]), (1, 2, [0]), (2, 3, [2]), (3, 4, [2]), (4, 5, []), (0, 5, [0, 2])],
)
def test_reader_gets_the_aborts_of_its_range(logbook: Logbook, offset: int, up_to: int, expected: list[int]) -> None:
    """Producer 0 aborts offsets 0 and 1, producer 7 offsets 2 and 3; 4 is committed."""
    log = logbook.open()
    for who in (0, 7):
        sent(log, who)
        ended(log, who, committed=False)
    sent(log, 0)
    assert log.last_stable_offset(5) == 4 and log.last_stable_offset(3) == 3
    ended(log, 0, committed=True)
    assert log.last_stable_offset(5) == 4, "the marker is not committed yet"
    assert log.last_stable_offset(6) == 6
    found = log.aborted_transactions(offset, up_to)
    assert [one.first_offset for one in found] == expected
    assert [one.producer_id for one in found] == [{0: 0, 2: 7}[first] for first in expected]


# ---- reads


def test_read_ends_before_the_offset_that_the_reader_may_see(logbook: Logbook) -> None:
    log = logbook.open()
    sizes = [len(logbook.append(log, *[b"v"] * count)) for count in (2, 3, 1)]
    for up_to, count in ((0, 0), (1, 0), (2, 1), (4, 1), (5, 2), (6, 3), (99, 3)):
        assert log.read(0, 1 << 20, up_to).size == sum(sizes[:count])
    for most, count in ((sizes[0] - 1, 1), (sizes[0], 1), (sizes[0] + sizes[1] - 1, 1), (sizes[0] + sizes[1], 2)):
        found = log.read(0, most)
        assert (found.size, found.next_offset) == (sum(sizes[:count]), (0, 2, 5, 6)[count])
    assert log.read(0, sizes[0] - 1, min_one_batch=False).size == 0
    assert log.read(0, sizes[0], min_one_batch=False).size == sizes[0]
    assert (log.read(6, 100).size, log.read(6, 100).next_offset) == (0, 6)
