"""Histories of a log, and what a start finds of it afterwards."""

from __future__ import annotations

from odradek.storage.directory import LogDirectory, checkpoints_of
from odradek.storage.files.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, write_offsets
from odradek.storage.log.config import LogConfig

from tests.storage.conftest import NOW_MS

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)


def plain(book, log):
    for number in range(3):
        book.append(log, b"%d" % number)


def several_segments(book, log):
    for number in range(30):
        book.append(log, b"value %d" % number, leader_epoch=number // 10)
    assert len(log.segments) > 3


def producers(book, log):
    for sequence in range(3):
        book.append(log, b"%d" % sequence, producer_id=7, producer_epoch=1, base_sequence=sequence)


def open_transaction(book, log):
    plain(book, log)
    kind = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    book.append(log, b"undecided", **kind)


def trimmed(book, log):
    several_segments(book, log)
    assert log.advance_log_start_offset(log.segments[2].base_offset + 1)


def emptied(book, log):
    several_segments(book, log)
    log.truncate_fully_and_start_at(40, NOW_MS)


def led_without_records(book, log):
    plain(book, log)
    log.epochs.assign(5, log.log_end_offset)


HISTORIES = [plain, several_segments, producers, open_transaction, trimmed, emptied, led_without_records]


def stop(path, log):
    """Stops cleanly, as a broker does."""
    directory = LogDirectory.open(path)
    directory.close_logs([log], NOW_MS)
    found = checkpoints_of([log])
    write_offsets(directory.path, RECOVERY_POINTS, found.recovery_points)
    write_offsets(directory.path, LOG_START_OFFSETS, found.log_start_offsets)
    directory.mark_clean_shutdown(17, directory.notes_of([(log, bytes(16))]))
    directory.close()


def noted_replica(directory):
    (replica,) = directory.replicas()
    return directory.unchanged(replica)


def open_again(directory, noted):
    return directory.open_log("t", 0, SMALL, now_ms=NOW_MS, noted=noted)


def find_again(directory, noted):
    """Returns the log as a start finds it, which may be unopened."""
    return directory.find_log("t", 0, SMALL, now_ms=NOW_MS, noted=noted)


def state(log):
    producers = log.producers
    return {
        "segments": [(one.base_offset, one.next_offset, one.size) for one in log.segments],
        "ends": (log.log_start_offset, log.log_end_offset, log.recovery_point, log.size),
        "epochs": (log.epochs.entries(), log.epochs.latest, log.epochs.is_doubtful),
        "snapshots": log._snapshots,
        "producers": sorted(map(repr, producers.to_snapshot())),
        "stable": (producers.end_offset, log.last_stable_offset(log.log_end_offset)),
        "damage": list(log.damage),
        "notes": log.opening_notes,
    }
