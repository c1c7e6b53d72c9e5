"""Logs whose older part is in a remote store: the log starts before its first segment (KIP-405)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.internal.producer_snapshot import ProducerEntry
from odradek.storage.directory import checkpoints_of
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import OffsetOutOfRange
from odradek.storage.log.retention import delete_old_segments
from odradek.storage.segments.snapshots import CorruptSnapshot

from tests.storage.conftest import NOW_MS, Logbook

TIERED = LogConfig(remote_storage=True, file_delete_delay_ms=0)


@pytest.fixture
def log(logbook: Logbook) -> Any:
    """Returns a log of four segments of three records, one in each leader epoch, of which the first two are removed."""
    log = logbook.open(TIERED)
    for epoch in range(4):
        logbook.append(log, b"a", b"b", b"c", leader_epoch=epoch)
        log.roll(NOW_MS)
    log.remove_first(2, NOW_MS)
    return log


EPOCHS = [(0, 0), (1, 3), (2, 6), (3, 9)]


def test_removed_segments_move_the_local_start_only(log: Any) -> None:
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 6, 12)
    assert log.epochs.entries() == EPOCHS and checkpoints_of([log]).log_start_offsets == {("t", 0): 0}


def test_read_before_the_first_segment_is_out_of_range(log: Any, logbook: Logbook) -> None:
    for offset in (0, 5):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 1 << 20)
    assert [offset for offset, _ in logbook.values(log, 6)] == [6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("start", [0, 4])
def test_start_and_epochs_survive_a_restart(log: Any, logbook: Logbook, *, clean: bool, start: int) -> None:
    log.advance_log_start_offset(start)
    log.flush(NOW_MS)
    noted = log.to_note() if clean else None
    log.close(NOW_MS, clean=clean)
    assert noted is None or noted.start_offset == start
    reopened = logbook.open(TIERED, clean=clean, log_start_offset=start, recovery_point=12 if clean else 6)
    assert (reopened.log_start_offset, reopened.local_log_start_offset, reopened.log_end_offset) == (start, 6, 12)
    assert reopened.epochs.entries() == (EPOCHS if start == 0 else [(1, 4), *EPOCHS[2:]]) and not reopened.damage


def test_log_without_remote_part_any_more_starts_with_its_first_segment(log: Any, logbook: Logbook) -> None:
    log.close(NOW_MS)
    reopened = logbook.open(LogConfig(), clean=True, log_start_offset=0)
    assert reopened.log_start_offset == reopened.local_log_start_offset == 6
    assert reopened.epochs.entries() == EPOCHS[2:]


def test_retention_without_metadata_of_copies_deletes_nothing(log: Any) -> None:
    log.config = LogConfig(remote_storage=True, retention_ms=0, retention_bytes=0)
    assert delete_old_segments(log, NOW_MS << 1, 12) == 0 and log.local_log_start_offset == 6


def test_truncation_below_the_local_start_keeps_start_and_epochs(log: Any) -> None:
    log.truncate_to(4, NOW_MS)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 4, 4)
    assert log.epochs.entries() == [(0, 0), (1, 3)]


def test_log_that_begins_after_the_remote_part_has_its_epochs_and_producers(logbook: Logbook) -> None:
    log = logbook.open(TIERED)
    producer = ProducerEntry(7, 1, 4, 19, 2, NOW_MS, -1, -1)
    log.begin_after_remote(20, NOW_MS, 5, [(0, 0), (2, 8), (3, 20)], [producer])
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (5, 20, 20)
    assert log.epochs.entries() == [(0, 5), (2, 8)]
    logbook.append(log, b"x", leader_epoch=3)
    log.flush(NOW_MS)
    log.close(NOW_MS, clean=False)
    reopened = logbook.open(TIERED, log_start_offset=5, recovery_point=0)
    assert (reopened.log_start_offset, reopened.local_log_start_offset, reopened.log_end_offset) == (5, 20, 21)
    assert reopened.epochs.entries() == [(0, 5), (2, 8), (3, 20)]
    assert reopened.producers.by_id[7].last_sequence == 4


def test_removed_segments_of_a_log_without_remote_part_move_its_start(logbook: Logbook, tmp_path: Path) -> None:
    log = logbook.open(LogConfig(file_delete_delay_ms=0))
    for _ in range(3):
        logbook.append(log, b"a", b"b")
        log.roll(NOW_MS)
    log.remove_first(1, NOW_MS)
    assert log.log_start_offset == log.local_log_start_offset == 2
    assert checkpoints_of([log]).log_start_offsets == {}


def test_damaged_snapshot_of_producers_at_the_local_start_is_an_error(log: Any) -> None:
    snapshot = Path(log.path) / f"{log.local_log_start_offset:020d}.snapshot"
    assert log.producers_at_local_start() == []
    snapshot.write_bytes(b"damaged")
    with pytest.raises(CorruptSnapshot):
        log.producers_at_local_start()
    snapshot.unlink()
    assert log.producers_at_local_start() == []
