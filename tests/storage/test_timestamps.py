"""Lookup of records by timestamp."""

from __future__ import annotations

import random

import pytest
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.log.config import LogConfig
from odradek.storage.segments.timestamps import TimestampedOffset

from tests.harness.examples import examples

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)


def append_times(logbook, log, times, epoch=4):
    base = log.log_end_offset
    records = [Record(base + i, at, None, b"x" * 30) for i, at in enumerate(times)]
    log.append(encode_batch(records, leader_epoch=epoch), None, logbook.now_ms)


@pytest.mark.parametrize("seed", range(examples(4)))
def test_the_first_record_that_is_not_older_is_found(logbook, seed):
    rng = random.Random(seed)
    log, times, now = logbook.open(SMALL), [], 1000
    for _ in range(120):
        batch = sorted(now + rng.randrange(50) for _ in range(rng.randrange(1, 4)))
        append_times(logbook, log, batch)
        times += batch
        now = batch[-1]
    assert len(log.segments) > 3
    for reopened in (False, True):
        if reopened:
            log.close(logbook.now_ms)
            log = logbook.open(SMALL, clean=True)
        for timestamp in rng.sample(range(900, now + 100), 150):
            expected = next((offset for offset, at in enumerate(times) if at >= timestamp), None)
            found = log.offset_for_timestamp(timestamp)
            assert (found.offset if found else None) == expected
            assert found is None or (found.timestamp, found.leader_epoch) == (times[expected], 4)


def test_records_below_the_log_start_are_not_found(logbook):
    log = logbook.open(SMALL)
    append_times(logbook, log, [10, 20, 30, 40])
    log.advance_log_start_offset(2)
    assert log.offset_for_timestamp(0) == TimestampedOffset(2, 30, 4)


def test_the_newest_record_is_the_first_with_the_largest_timestamp(logbook):
    log = logbook.open(SMALL)
    assert log.offset_of_max_timestamp() is None
    append_times(logbook, log, [10, 90, 20])
    append_times(logbook, log, [50] * 40)
    append_times(logbook, log, [90, 80])
    log.roll(logbook.now_ms)
    append_times(logbook, log, [70])
    assert log.offset_of_max_timestamp() == TimestampedOffset(1, 90, 4)
    log.close(logbook.now_ms)
    assert logbook.open(SMALL, clean=True).offset_of_max_timestamp() == TimestampedOffset(1, 90, 4)
    assert logbook.open(SMALL).offset_of_max_timestamp() == TimestampedOffset(1, 90, 4)
    append_times(logbook, log, [91])
    assert log.offset_of_max_timestamp() == TimestampedOffset(46, 91, 4)


def test_truncation_takes_the_largest_timestamp_back(logbook):
    log = logbook.open(SMALL)
    append_times(logbook, log, [10, 20])
    append_times(logbook, log, [99])
    log.truncate_to(2, logbook.now_ms)
    assert log.offset_of_max_timestamp() == TimestampedOffset(1, 20, 4)
    assert log.offset_for_timestamp(21) is None


def test_truncation_takes_the_offset_of_the_largest_timestamp_back_to_an_indexed_one(logbook):
    """The rest of the log after the last entry of the index is older: the entry has the largest timestamp."""
    log = logbook.open(LogConfig(index_interval_bytes=50))
    for at in (10, 90, 20, 30, 99):
        append_times(logbook, log, [at] * 3)
    assert log.offset_of_max_timestamp() == TimestampedOffset(12, 99, 4)
    log.truncate_to(12, logbook.now_ms)
    assert log.offset_of_max_timestamp() == TimestampedOffset(3, 90, 4)
    log.truncate_to(3, logbook.now_ms)
    assert log.offset_of_max_timestamp() == TimestampedOffset(0, 10, 4)


def test_with_log_append_time_all_records_of_a_batch_have_its_time(logbook):
    log = logbook.open(SMALL)
    records = [Record(offset, 5, None, b"x") for offset in range(3)]
    log.append(encode_batch(records, log_append_time=777), None, logbook.now_ms)
    assert log.offset_for_timestamp(6) == TimestampedOffset(0, 777, -1)
    assert log.offset_of_max_timestamp() == TimestampedOffset(0, 777, -1)


def test_after_truncation_older_records_are_found_by_time_again(logbook):
    log = logbook.open(LogConfig(index_interval_bytes=50))
    for at in range(10, 100, 10):
        append_times(logbook, log, [at] * 3)
    log.truncate_to(6, logbook.now_ms)
    for at in range(21, 40):
        append_times(logbook, log, [at] * 3)
    assert log.segments[0].time_index.last_timestamp < 40
    for at in range(21, 40):
        assert log.offset_for_timestamp(at) == TimestampedOffset(6 + (at - 21) * 3, at, 4)
    assert log.offset_for_timestamp(40) is None
