"""Compaction against an independent model, and its settings one by one."""

from __future__ import annotations

import dataclasses
import os
import pickle
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from odradek.protocol.records.batch import iter_headers, seal
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.errors import CorruptBatch
from odradek.protocol.records.record import decode_batch
from odradek.storage.compaction import cleaning_job
from odradek.storage.compaction.cleaning_job import CleaningAborted, finish, job
from odradek.storage.compaction.dirty_range import look
from odradek.storage.compaction.offset_map import OffsetMap
from odradek.storage.log.config import LogConfig
from odradek.storage.log.retention import delete_old_segments

from tests.harness.examples import examples

_SMALL = {"segment_bytes": 1500, "index_interval_bytes": 200, "min_cleanable_dirty_ratio": 0.0}
COMPACT = LogConfig(compact=True, delete=False, delete_retention_ms=1000, file_delete_delay_ms=0, **_SMALL)


def clean(log, now_ms, cleaner_offset=None, stable=None, most_keys=10_000):
    """Cleans once, as the server does. Returns the new checkpoint, or None when there was nothing to clean."""
    dirt = look(log, cleaner_offset, log.log_end_offset if stable is None else stable, now_ms)
    if not dirt.needs_cleaning(log.config):
        return None
    cleaning = pickle.loads(pickle.dumps(job(log, dirt, now_ms, most_keys)))
    result = pickle.loads(pickle.dumps(cleaning.run()))
    assert finish(log, cleaning, result, now_ms)
    log.delete_scheduled(now_ms)
    return result.end_offset


def headers_of(logbook, log):
    return [header for _, header in iter_headers(logbook.read_all(log))]


def records_of(logbook, log):
    data = logbook.read_all(log)
    return [
        (header, record)
        for position, header in iter_headers(data)
        if not header.is_control
        for record in decode_batch(data, position)
    ]


# ---- the model: the batches of the log, and the records that a cleaning must keep


class ModelBatch:
    def __init__(self, base, records, producer=None, aborted=False):
        self.base = base
        self.last = base + len(records) - 1
        self.records = [(base + i, key, value) for i, (key, value) in enumerate(records)]
        self.producer = producer
        self.aborted = aborted
        self.horizon = None


class Model:
    def __init__(self):
        self.batches = []

    def clean(self, first_dirty, end, now_ms, retention_ms):
        newest = {}
        for batch in self.batches:
            for offset, key, _ in batch.records:
                if first_dirty <= offset < end and not batch.aborted:
                    newest[key] = offset
        for batch in self.batches:
            if batch.base >= end:
                continue
            expired = batch.horizon is not None and batch.horizon <= now_ms
            batch.records = [
                (offset, key, value)
                for offset, key, value in batch.records
                if not batch.aborted and offset >= newest.get(key, -1) and not (value is None and expired)
            ]
            if batch.horizon is None and any(value is None for _, _, value in batch.records):
                batch.horizon = now_ms + retention_ms

    def records(self):
        return [record for batch in self.batches for record in batch.records]


KEYS = st.sampled_from([b"a", b"b", b"c", b"k" * 40])
VALUES = st.one_of(st.none(), st.binary(min_size=0, max_size=60))
RECORDS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), RECORDS, st.sampled_from(list(Compression))),
        st.tuples(st.just("produce"), RECORDS, st.integers(1, 2)),
        st.tuples(st.just("transaction"), st.lists(RECORDS, min_size=1, max_size=2), st.integers(3, 4), st.booleans()),
        st.tuples(st.just("roll")),
        st.tuples(st.just("wait"), st.sampled_from([10, 600, 1100])),
        st.tuples(st.just("clean"), st.booleans()),
        st.tuples(st.just("reopen"), st.booleans()),
    ),
    min_size=5,
    max_size=40,
)


class Run:
    """Runs each step on the log and on the model."""

    def __init__(self, logbook):
        self.logbook = logbook
        self.log = logbook.open(COMPACT)
        self.model = Model()
        self.now_ms = logbook.now_ms
        self.cleaned_to = None
        self.sequences = {}

    def step(self, kind, *arguments):
        getattr(self, kind)(*arguments)
        self.check()

    def _append(self, records, aborted=False, **kind):
        self.model.batches.append(ModelBatch(self.log.log_end_offset, records, kind.get("producer_id"), aborted))
        self.logbook.append(self.log, *records, at=self.now_ms, **kind)

    def _sequenced(self, records, producer_id, **kind):
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + len(records)
        self._append(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, **kind)

    def put(self, records, compression):
        self._append(records, compression=compression)

    def produce(self, records, producer_id):
        self._sequenced(records, producer_id)

    def transaction(self, batches, producer_id, commits):
        for records in batches:
            self._sequenced(records, producer_id, aborted=not commits, transactional=True)
            if len(records) == 3:
                self.log.roll(self.now_ms)
        marker = encode_end_transaction(
            commits, base_offset=self.log.log_end_offset, timestamp=self.now_ms, producer_id=producer_id,
            producer_epoch=0, coordinator_epoch=1, leader_epoch=0,
        )  # fmt: skip
        self.log.append(marker, None, self.now_ms)

    def roll(self):
        self.log.roll(self.now_ms)

    def wait(self, ms):
        self.now_ms += ms

    def clean(self, from_the_start):
        first_dirty = 0 if from_the_start else (self.cleaned_to or 0)
        end = clean(self.log, self.now_ms, None if from_the_start else self.cleaned_to)
        if end is not None:
            self.cleaned_to = end
            self.model.clean(first_dirty, end, self.now_ms, COMPACT.delete_retention_ms)

    def reopen(self, is_clean):
        before = {p.producer_id: (p.epoch, p.last_sequence) for p in self.log.producers.by_id.values()}
        end = self.log.log_end_offset
        if is_clean:
            self.log.close(self.now_ms)
        self.log = self.logbook.open(COMPACT, clean=is_clean)
        after = {p.producer_id: (p.epoch, p.last_sequence) for p in self.log.producers.by_id.values()}
        assert after == before, "producers go on where they were"
        assert self.log.log_end_offset == end

    def check(self):
        found = records_of(self.logbook, self.log)
        # The index identifies aborted records that are not cleaned yet, as it does for consumers.
        aborted = self.log.aborted_transactions(0, self.log.log_end_offset)
        expected = self.model.records()
        assert [(r.offset, r.key, r.value) for _, r in found] == expected
        hidden = {
            record[0] for batch in self.model.batches if batch.aborted for record in batch.records
        }  # fmt: skip
        seen_as_aborted = {
            record.offset
            for header, record in found
            if header.is_transactional
            and any(
                a.producer_id == header.producer_id and a.first_offset <= record.offset < a.last_offset for a in aborted
            )
        }
        assert seen_as_aborted == hidden


#: A former bug mistook a producer's later transaction for its aborted one, whose marker was not in the dirty part.
ABORTED_BEFORE_THE_DIRTY_PART = [
    ("transaction", [[(b"a", None)]], 3, False),
    ("roll",),
    ("put", [(b"a", None)], Compression.NONE),
    ("transaction", [[(b"a", None)]], 3, True),
    ("clean", False),
    ("roll",),
    ("clean", False),
]


@pytest.mark.slow
@example(steps=ABORTED_BEFORE_THE_DIRTY_PART)
@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_compacted_log_is_what_the_model_says(make_logbook, steps):
    with tempfile.TemporaryDirectory() as directory:
        run = Run(make_logbook(directory))
        for step in steps:
            run.step(*step)


# ---- the settings


def fill(logbook, log, count, at=None):
    for number in range(count):
        logbook.append(log, (b"key", b"%d" % number + b"x" * 300), at=logbook.now_ms if at is None else at)


def test_only_the_newest_value_of_a_key_stays_below_the_active_segment(logbook):
    log = logbook.open(COMPACT)
    fill(logbook, log, 20)
    active = log.active.base_offset
    end = clean(log, logbook.now_ms)
    assert end == active
    offsets = [record.offset for _, record in records_of(logbook, log)]
    assert offsets == [active - 1, *range(active, 20)]
    assert log.log_start_offset == 0


def test_a_log_less_dirty_than_its_ratio_is_left_alone(logbook):
    log = logbook.open(dataclasses.replace(COMPACT, min_cleanable_dirty_ratio=0.5))
    fill(logbook, log, 20)
    assert look(log, None, 20, 0).ratio == 1.0
    half = log.segments[len(log.segments) * 2 // 3].base_offset
    dirt = look(log, half, 20, logbook.now_ms)
    assert 0 < dirt.ratio < 0.5
    assert not dirt.needs_cleaning(log.config)
    log.config = dataclasses.replace(log.config, min_cleanable_dirty_ratio=0.1)
    assert dirt.needs_cleaning(log.config)


def test_a_log_is_cleaned_when_the_greatest_lag_has_passed_whatever_its_ratio(logbook):
    log = logbook.open(dataclasses.replace(COMPACT, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=5000))
    fill(logbook, log, 20)
    assert clean(log, logbook.now_ms + 5000) is None
    assert clean(log, logbook.now_ms + 5001) is not None


def test_records_younger_than_the_least_lag_are_left_alone(logbook):
    log = logbook.open(dataclasses.replace(COMPACT, min_compaction_lag_ms=5000))
    fill(logbook, log, 10, at=logbook.now_ms)
    log.roll(logbook.now_ms)
    fill(logbook, log, 10, at=logbook.now_ms + 3000)
    assert clean(log, logbook.now_ms + 4000) is None
    assert clean(log, logbook.now_ms + 6000) == 10
    assert clean(log, logbook.now_ms + 8000, 10) == log.active.base_offset


def test_records_without_time_are_as_old_as_their_file(logbook):
    log = logbook.open(dataclasses.replace(COMPACT, min_compaction_lag_ms=5000))
    for number in range(3):
        logbook.append(log, (b"k", b"%d" % number), at=-1)
    log.roll(logbook.now_ms)
    for segment in log.segments[:-1]:
        os.utime(segment.path, ns=(0, logbook.now_ms * 1_000_000))
    assert clean(log, logbook.now_ms + 4999) is None
    assert clean(log, logbook.now_ms + 5001) == 3


def test_nothing_at_or_past_the_last_stable_offset_is_touched(logbook):
    log = logbook.open(COMPACT)
    fill(logbook, log, 20)
    stable = log.segments[2].base_offset + 1
    end = log.segments[2].base_offset
    assert clean(log, logbook.now_ms, stable=stable) == end
    assert [record.offset for _, record in records_of(logbook, log)] == list(range(end - 1, 20))


def test_a_map_that_is_full_cleans_as_far_as_it_goes(logbook):
    log = logbook.open(COMPACT)
    for number in range(60):
        logbook.append(log, (b"%d" % (number // 2), b"x" * 100))
    checkpoint, cleanings = None, 0
    while (end := clean(log, logbook.now_ms, checkpoint, most_keys=5)) is not None and end != checkpoint:
        checkpoint, cleanings = end, cleanings + 1
    assert checkpoint == log.active.base_offset
    assert cleanings > 3
    kept = [record.offset for _, record in records_of(logbook, log) if record.offset < checkpoint]
    # Each key has two consecutive records, both in the range of one cleaning, which keeps the second.
    assert all(offset % 2 == 1 for offset in kept)


def test_a_checkpoint_outside_of_the_log_is_not_believed(logbook):
    log = logbook.open(COMPACT)
    fill(logbook, log, 20)
    dirt = look(log, 1000, 20, logbook.now_ms)
    assert (dirt.first_dirty_offset, dirt.is_checkpoint_wrong) == (0, True)
    log.advance_log_start_offset(5)
    dirt = look(log, 1, 20, logbook.now_ms)
    assert (dirt.first_dirty_offset, dirt.is_checkpoint_wrong) == (5, True)


def test_small_segments_are_put_together(logbook):
    log = logbook.open(dataclasses.replace(COMPACT, segment_bytes=400))
    for number in range(50):
        logbook.append(log, (b"%d" % (number % 4), b"x" * 100))
    assert len(log.segments) > 20
    before = len(log.segments)
    clean(log, logbook.now_ms)
    assert len(log.segments) == before, "by the sizes that they had"
    clean(log, logbook.now_ms, 0)
    assert len(log.segments) < 5


def test_an_emptied_batch_keeps_the_sequence_of_its_producer(logbook):
    log = logbook.open(COMPACT)
    logbook.append(log, (b"key", b"old"), producer_id=9, producer_epoch=3, base_sequence=5)
    fill(logbook, log, 10)
    clean(log, logbook.now_ms)
    first = headers_of(logbook, log)[0]
    assert (first.producer_id, first.producer_epoch, first.last_sequence, first.record_count) == (9, 3, 5, 0)
    assert first.size == 61
    log.producers.expire(logbook.now_ms + COMPACT.producer_id_expiration_ms, COMPACT.producer_id_expiration_ms)
    clean(log, logbook.now_ms, 0)
    assert headers_of(logbook, log)[0].producer_id == -1, "an expired producer's last batch goes"


@pytest.mark.parametrize("commits", [True, False])
def test_a_marker_stays_as_long_as_a_tombstone_after_its_transaction_is_gone(logbook, commits):
    log = logbook.open(COMPACT)
    logbook.append(log, (b"key", b"v"), producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    marker = encode_end_transaction(
        commits, base_offset=1, timestamp=logbook.now_ms, producer_id=9, producer_epoch=0, coordinator_epoch=0,
        leader_epoch=0,
    )  # fmt: skip
    log.append(marker, None, logbook.now_ms)
    fill(logbook, log, 10)
    log.producers.expire(logbook.now_ms + COMPACT.producer_id_expiration_ms, COMPACT.producer_id_expiration_ms)
    now = logbook.now_ms

    def markers():
        return [header for header in headers_of(logbook, log) if header.is_control]

    clean(log, now, 0)
    assert [header.has_delete_horizon for header in markers()] == [False], "its transaction was there until now"
    assert len(log.aborted_transactions(0, 10)) == (not commits)
    clean(log, now + 1, 0)
    assert [header.has_delete_horizon for header in markers()] == [True]
    assert log.aborted_transactions(0, 10) == []
    clean(log, now + 1 + 999, 0)
    assert len(markers()) == 1
    clean(log, now + 1 + 1000, 0)
    assert markers() == []


def test_compacted_and_deleted_logs_lose_old_segments_too(logbook):
    log = logbook.open(dataclasses.replace(COMPACT, delete=True, retention_ms=10_000))
    fill(logbook, log, 20, at=logbook.now_ms)
    clean(log, logbook.now_ms)
    for segment in log.segments:
        os.utime(segment.path, (logbook.now_ms / 1000, logbook.now_ms / 1000))  # without records the file's time counts
    assert delete_old_segments(log, logbook.now_ms + 10_000, 20) == 0
    assert delete_old_segments(log, logbook.now_ms + 10_001, 20) == 5
    assert log.size == 0


def test_a_log_that_was_cut_meanwhile_keeps_its_segments(logbook):
    log = logbook.open(COMPACT)
    fill(logbook, log, 20)
    cleaning = job(log, look(log, None, 20, logbook.now_ms), logbook.now_ms, 100)
    result = cleaning.run()
    log.truncate_to(10, logbook.now_ms)
    fill(logbook, log, 10)
    before = logbook.read_all(log)
    assert not finish(log, cleaning, result, logbook.now_ms)
    assert logbook.read_all(log) == before
    assert not list(logbook.path.glob("*.cleaned"))


def test_a_cleaning_can_be_stopped_and_leaves_nothing_behind(logbook):
    log = logbook.open(COMPACT)
    fill(logbook, log, 20)
    steps = iter([False] * 25)
    with pytest.raises(CleaningAborted):
        job(log, look(log, None, 20, 0), 0, 100).run(lambda: next(steps, True))
    assert not list(logbook.path.glob("*.cleaned"))


def test_damage_is_not_copied_into_a_cleaned_segment(logbook):
    log = logbook.open(COMPACT)
    fill(logbook, log, 20)
    path = Path(log.segments[1].path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptBatch):
        job(log, look(log, None, 20, 0), 0, 100).run()
    assert not list(logbook.path.glob("*.cleaned"))


def poisoned(logbook, offset):
    """Returns a batch with a good CRC whose header counts one record too many."""
    data = bytearray(logbook.batch(offset, [(b"p%d" % offset, b"x" * 100)] * 2))
    struct.pack_into(">i", data, 57, 3)
    seal(data, 0, len(data))
    return bytes(data)


@pytest.mark.parametrize("reported", [1, 2, 3, 4])
def test_poisoned_batches_are_kept_and_so_many_reported(logbook, monkeypatch, reported):
    monkeypatch.setattr(cleaning_job, "MOST_POISONED", reported)
    log = logbook.open(dataclasses.replace(COMPACT, segment_bytes=1 << 20))
    written = []
    for _ in range(3):
        written.append(poisoned(logbook, log.log_end_offset))
        log.append(written[-1], None, logbook.now_ms)
        fill(logbook, log, 1)
    log.roll(logbook.now_ms)
    cleaning = job(log, look(log, None, 9, logbook.now_ms), logbook.now_ms, 100)
    result = cleaning.run()
    assert [one.base_offset for one in result.poisoned] == [0, 3, 6][:reported]
    assert finish(log, cleaning, result, logbook.now_ms)
    newest = logbook.batch(8, [(b"key", b"0" + b"x" * 300)], at=logbook.now_ms)
    assert logbook.read_all(log) == b"".join(written) + newest


@pytest.mark.parametrize("written_at_once", [1, 400, 1 << 20])
def test_cleaned_segment_is_the_same_whatever_is_written_at_once(logbook, monkeypatch, written_at_once):
    monkeypatch.setattr(cleaning_job, "_WRITE_BYTES", written_at_once)
    log = logbook.open(dataclasses.replace(COMPACT, segment_bytes=1 << 20))
    written = [logbook.append(log, (b"k%d" % number, b"x" * 100)) for number in range(9)]
    log.roll(logbook.now_ms)
    cleaning = job(log, look(log, None, 9, logbook.now_ms), logbook.now_ms, 100)
    result = cleaning.run()
    assert (result.bytes_read, result.bytes_written) == (sum(map(len, written)),) * 2
    assert Path(f"{log.segments[0].path}.cleaned").read_bytes() == b"".join(written)


def test_long_keys_are_distinguished_by_their_digests():
    newest = OffsetMap(10)
    for number in range(5):
        assert newest.put(b"k" * 100 + b"%d" % number, number)
    assert [newest.newest(b"k" * 100 + b"%d" % number) for number in range(6)] == [0, 1, 2, 3, 4, -1]
