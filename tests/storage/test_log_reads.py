"""Reads and searches of a log with damaged ranges, when a flush is due, what is noted of it, and unusual markers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.internal.control_records import EndTxnMarker, LeaderChangeMessage
from odradek.protocol.records.batch import read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.control import ControlType, encode_control
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.log.config import LogConfig
from odradek.storage.log.ends import UNPROVEN, Claim
from odradek.storage.log.loading import DamagedLog
from odradek.storage.log.log import OffsetOutOfRange
from odradek.storage.log.producers import EndedTransaction, Producers
from odradek.storage.log.replay import follow_batch
from odradek.storage.segments.damage import DamagedRange, OffsetDamaged

from tests.storage.conftest import NOW_MS, Logbook

SECOND = 1000


@pytest.fixture
def log(logbook: Logbook) -> Any:
    """Returns a log of the segments 0, 4 and 8, and the active one 12: batches of two records, a second apart."""
    log = logbook.open()
    for base in range(0, 12, 2):
        data = logbook.batch(base, [b"a", b"b"], at=NOW_MS + base * SECOND)
        log.append(data, None, NOW_MS)
        if base % 4 == 2:
            log.roll(NOW_MS)
    assert [one.base_offset for one in log.segments] == [0, 4, 8, 12]
    return log


def damaged(log: Any, first: int, following: int) -> None:
    """Marks whole batches of one segment as damaged."""
    segment = log.segment_of(first)
    places = {header.base_offset: position for position, header in segment.headers(0)}
    begin = places[first]
    end = places.get(following, segment.size)
    name = Path(segment.path).name
    assert log.add_damage([DamagedRange(name, begin, end - begin, first, following, "bad CRC")])


# ---- reads


@pytest.mark.parametrize(
    ("offset", "next_offset"), [(0, 4), (3, 4), (4, 6), (5, 6), (6, None), (7, None), (8, 12), (12, 12)]
)
def test_read_ends_before_a_damaged_range_and_fails_in_it(log: Any, offset: int, next_offset: int | None) -> None:
    damaged(log, 6, 8)
    if next_offset is None:
        with pytest.raises(OffsetDamaged) as raised:
            log.read(offset, 1 << 20)
        assert (raised.value.damaged.first_offset, raised.value.damaged.next_offset) == (6, 8)
    else:
        assert log.read(offset, 1 << 20).next_offset == next_offset


def test_read_after_a_damaged_range_begins_with_the_batch_behind_it(log: Any, logbook: Logbook) -> None:
    damaged(log, 4, 6)
    assert logbook.values(log, 6) == [(6, b"a"), (7, b"b"), (8, b"a"), (9, b"b"), (10, b"a"), (11, b"b")]
    with pytest.raises(OffsetDamaged):
        log.read(5, 100)


@pytest.mark.parametrize("offset", [-1, 13])
def test_read_outside_of_the_log_is_out_of_range(log: Any, offset: int) -> None:
    with pytest.raises(OffsetOutOfRange):
        log.read(offset, 100)


@pytest.mark.parametrize(("base", "end", "is_unverified"), [(0, 4, True), (4, 8, True), (8, 12, True)])
def test_closed_segment_is_unverified_until_it_was_verified(log: Any, base: int, end: int, is_unverified: bool) -> None:
    assert log.read(base, 1 << 20).is_unverified == is_unverified
    log.segment_of(base).is_verified = True
    assert not log.read(base, 1 << 20).is_unverified
    log.append(Logbook(Path()).batch(12, [b"x"]), None, NOW_MS)
    assert not log.read(12, 100).is_unverified, "the active one is not closed"


# ---- searches by time


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [(0, 0), (NOW_MS, 0), (NOW_MS + 1, 1), (NOW_MS + 2, 2), (NOW_MS + 8 * SECOND, 8), (NOW_MS + 10 * SECOND + 1, 11),
     (NOW_MS + 10 * SECOND + 2, None)],
)  # fmt: skip
def test_first_record_from_a_time_on_is_found(log: Any, timestamp: int, offset: int | None) -> None:
    found = log.offset_for_timestamp(timestamp)
    assert (None if found is None else found.offset) == offset
    newest = log.offset_of_max_timestamp()
    assert (newest.offset, newest.timestamp, newest.leader_epoch) == (11, NOW_MS + 10 * SECOND + 1, 0)


def test_log_without_records_has_no_times(logbook: Logbook) -> None:
    log = logbook.open()
    assert log.offset_for_timestamp(0) is None and log.offset_of_max_timestamp() is None


@pytest.mark.parametrize(
    ("timestamp", "result"),
    [(NOW_MS, 0), (NOW_MS + 1, 1), (NOW_MS + 2, "damaged"), (NOW_MS + 2 * SECOND, "damaged"), (NOW_MS + 8 * SECOND, 8)],
)
def test_search_that_would_pass_a_damaged_range_fails(log: Any, timestamp: int, result: int | str) -> None:
    """Offsets 2 and 3 are damaged: the record that is looked for may be one of them."""
    damaged(log, 2, 4)
    if result == "damaged":
        with pytest.raises(OffsetDamaged):
            log.offset_for_timestamp(timestamp)
    else:
        assert log.offset_for_timestamp(timestamp).offset == result


# ---- flushes


@pytest.mark.parametrize(
    ("flushed", "messages", "ms", "later_ms", "due"),
    [
        (12, 1, 0, 9, None),
        (11, 1 << 62, 1 << 62, 9, 12),
        (0, 1 << 62, 1 << 62, 9, 12),
        (12, 1 << 62, 1 << 62, 9, None),
        (5, 99, 1 << 62, 9, 12),
    ],
)
def test_flush_is_due_up_to_the_last_rolled_segment(
    log: Any, flushed: int, messages: int, ms: int, later_ms: int, due: int | None
) -> None:
    log.config = LogConfig(flush_messages=messages, flush_ms=ms)
    log.recovery_point, log.last_flush_ms = flushed, NOW_MS
    assert log.flush_due(NOW_MS + later_ms) == due


@pytest.mark.parametrize(
    ("count", "messages", "ms", "later_ms", "is_due"),
    [
        (1, 2, 1 << 62, 0, False),
        (2, 2, 1 << 62, 0, True),
        (1, 99, 10, 9, False),
        (1, 99, 10, 10, True),
        (0, 1, 0, 99, False),
    ],
)
def test_flush_of_the_active_segment_is_due_by_messages_or_time(
    logbook: Logbook, count: int, messages: int, ms: int, later_ms: int, is_due: bool
) -> None:
    log = logbook.open(LogConfig(flush_messages=messages, flush_ms=ms))
    for number in range(count):
        logbook.append(log, b"%d" % number)
    assert log.flush_due(NOW_MS + later_ms) == (count if is_due else None)
    assert log.is_unflushed == (count > 0)
    log.flush(NOW_MS)
    assert not log.is_unflushed and log.prepare_flush() is None and log.flush_due(NOW_MS + 1000) is None


# ---- notes


def test_note_of_a_log_has_its_files_as_they_are(log: Any, logbook: Logbook) -> None:
    log.flush(NOW_MS)
    note = log.to_note()
    assert note is not None
    sizes = [(one.base_offset, one.size) for one in log.segments]
    assert [(one.base_offset, one.size) for one in note.segments] == sizes
    assert (note.start_offset, note.end_offset, note.epochs, note.has_producers) == (0, 12, [(0, 0)], False)
    assert note.snapshots == [4, 8, 12] and note.are_epochs_written


@pytest.mark.parametrize("reason", ["damage", "transient", "size", "quiet", "doubtful", "none"])
def test_log_that_the_next_start_has_to_look_at_has_no_note(log: Any, logbook: Logbook, reason: str) -> None:
    log.flush(NOW_MS)
    last = Path(log.active.path).stat().st_mtime_ns
    quiet_since = last
    if reason == "damage":
        damaged(log, 4, 6)
    elif reason == "transient":
        (logbook.path / f"{0:020}.log.deleted").write_bytes(b"")
    elif reason == "size":
        os.truncate(log.segments[1].path, 5)
    elif reason == "quiet":
        quiet_since = last - 1
    elif reason == "doubtful":
        log.epochs.is_doubtful = True
    assert (log.to_note(quiet_since) is not None) == (reason == "none")


def test_restored_epochs_are_those_of_the_log_from_its_start_on(logbook: Logbook) -> None:
    log = logbook.open(LogConfig(remote_storage=True))
    for epoch in range(3):
        logbook.append(log, b"a", b"b", leader_epoch=epoch)
    log.advance_log_start_offset(3)
    log.restore_epochs([(0, 0), (1, 2), (5, 4)])
    assert log.epochs.entries() == [(1, 3), (5, 4)]
    assert (logbook.path / "leader-epoch-checkpoint").read_text().splitlines()[2:] == ["1 3", "5 4"]


# ---- markers of other brokers


def control(kind: ControlType, message: Any, *, compression: Compression = Compression.NONE) -> bytes:
    key, value = encode_control(kind, message)
    return encode_batch(
        [Record(5, NOW_MS, key, value)], producer_id=0, producer_epoch=0, transactional=True, control=True,
        compression=compression,
    )  # fmt: skip


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_marker_ends_a_transaction_in_whatever_form_it_is_written(kind: ControlType, compression: Compression) -> None:
    producers = Producers()
    producers.update(read_header(encode_batch(
        [Record(0, NOW_MS, None, b"v")], producer_id=0, producer_epoch=0, base_sequence=0, transactional=True,
    )))  # fmt: skip
    marker = control(kind, EndTxnMarker(coordinator_epoch=3), compression=compression)
    ended = follow_batch(producers, read_header(marker), memoryview(marker))
    assert ended == EndedTransaction(0, 0, 5, kind is ControlType.ABORT)
    producer = producers.by_id[0]
    assert (producer.coordinator_epoch, producer.last_timestamp, producer.transaction_first_offset) == (3, NOW_MS, -1)
    assert follow_batch(producers, read_header(marker), memoryview(marker)) is None, "nothing is open any more"


def test_control_record_of_another_type_ends_no_transaction() -> None:
    producers = Producers()
    producers.update(read_header(encode_batch(
        [Record(0, NOW_MS, None, b"v")], producer_id=0, producer_epoch=0, base_sequence=0, transactional=True,
    )))  # fmt: skip
    other = control(ControlType.LEADER_CHANGE, LeaderChangeMessage(version=0, leader_id=0, voters=[]))
    assert follow_batch(producers, read_header(other), memoryview(other)) is None
    assert producers.has_transactions and producers.by_id[0].transaction_first_offset == 0
    plain = encode_end_transaction(
        True, base_offset=5, timestamp=NOW_MS, producer_id=0, producer_epoch=0, coordinator_epoch=0
    )
    assert follow_batch(producers, read_header(plain), memoryview(plain)) is not None


# ---- logs that are to be whole


@pytest.mark.parametrize(
    ("whole_from", "claimed", "is_whole"), [(0, 4, True), (0, 5, False), (5, 5, True), (4, 5, False)]
)
def test_log_that_ends_before_a_known_end_is_not_whole(
    logbook: Logbook, whole_from: int, claimed: int, is_whole: bool
) -> None:
    log = logbook.open()
    for number in range(4):
        logbook.append(log, b"%d" % number)
    log.close(NOW_MS, clean=False)
    size = log.active.size
    claims = [Claim(claimed, UNPROVEN, "one"), Claim(claimed, UNPROVEN, "another")]
    if is_whole:
        assert logbook.open(claims=claims[:1], must_be_whole_from=whole_from).log_end_offset == 4
    else:
        with pytest.raises(DamagedLog, match=r"it ended at offset 5 by") as raised:
            logbook.open(claims=claims, must_be_whole_from=whole_from)
        (found,) = raised.value.ranges
        assert (found.position, found.size, found.first_offset, found.next_offset) == (size, 0, 4, 5)
        assert raised.value.end == 4
