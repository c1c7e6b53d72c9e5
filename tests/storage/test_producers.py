"""Idempotent and transactional producers: the validation of their batches, and their state afterwards."""

from __future__ import annotations

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import MAX_SEQUENCE, read_header
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.storage.log.config import LogConfig
from odradek.storage.log.producers import ProducerBatch, Producers
from odradek.storage.log.transaction_checks import MAX_PRODUCER_EPOCH, check_marker
from odradek.storage.segments.snapshots import CorruptSnapshot, decode_snapshot, encode_snapshot

DAY_MS = 86_400_000


@pytest.fixture
def header(logbook):
    def make(offset, sequence, count=1, epoch=0, producer_id=7, **kind):
        kind |= {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        return read_header(logbook.batch(offset, [b"x"] * count, **kind))

    return make


@pytest.fixture
def producers(header):
    """Returns the state after a producer wrote ten batches of one record, sequences 0 to 9, at offsets 100 to 109."""
    state = Producers()
    for number in range(10):
        state.update(header(100 + number, number))
    return state


def test_the_next_sequence_is_taken(producers, header):
    assert producers.check(header(110, 10)) is ErrorCode.NONE


def test_any_sequence_is_taken_from_a_producer_that_is_not_known(producers, header):
    assert producers.check(header(110, 4711, producer_id=8)) is ErrorCode.NONE


@pytest.mark.parametrize("number", range(5, 10))
def test_one_of_the_last_five_batches_is_known_again_by_its_offsets(producers, header, number):
    found = producers.check(header(110, number))
    assert isinstance(found, ProducerBatch)
    assert (found.base_offset, found.last_offset) == (100 + number, 100 + number)


def test_a_duplicate_is_only_one_with_the_same_first_and_last_sequence(producers, header):
    assert producers.check(header(110, 9, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(110, 8, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_duplicate_is_out_of_order_as_in_kafka(producers, header):
    assert producers.check(header(110, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_out_of_order(producers, header):
    assert producers.check(header(110, 11)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced(producers, header):
    producers.update(header(110, 0, epoch=3))
    assert producers.check(header(111, 1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_starts_with_sequence_zero(producers, header):
    assert producers.check(header(110, 0, epoch=1)) is ErrorCode.NONE
    assert producers.check(header(110, 1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.update(header(110, 0, epoch=1))
    assert len(producers.by_id[7].batches) == 1


def test_sequences_go_on_with_zero_after_the_greatest(producers, header):
    producers.update(header(110, MAX_SEQUENCE - 1, count=2))
    assert producers.check(header(112, 0)) is ErrorCode.NONE
    assert producers.check(header(112, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.update(header(112, MAX_SEQUENCE - 1, count=4))
    last = producers.by_id[7].batches[-1]
    assert (last.first_sequence, last.last_sequence) == (MAX_SEQUENCE - 1, 1)
    assert producers.check(header(116, MAX_SEQUENCE - 1, count=4)) == last


def test_a_producer_that_wrote_nothing_for_long_is_forgotten(producers, header):
    newest = producers.by_id[7].last_timestamp
    producers.expire(newest + DAY_MS - 1, DAY_MS)
    assert 7 in producers.by_id
    producers.expire(newest + DAY_MS, DAY_MS)
    assert producers.check(header(110, 4711)) is ErrorCode.NONE


def test_a_producer_with_an_open_transaction_is_not_forgotten(producers, header):
    producers.update(header(110, 10, transactional=True))
    producers.expire(10 * DAY_MS + producers.by_id[7].last_timestamp, DAY_MS)
    assert producers.by_id[7].transaction_first_offset == 110
    assert producers.check(header(111, 11)) is ErrorCode.INVALID_TXN_STATE
    assert producers.check(header(111, 11, transactional=True)) is ErrorCode.NONE


def test_last_stable_offset_is_the_start_of_the_first_open_transaction(logbook):
    log = logbook.open()
    logbook.append(log, b"plain")

    def produce(producer_id, sequence):
        kind = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
        logbook.append(log, b"x", **kind)

    def end(producer_id, committed):
        marker = encode_end_transaction(
            committed, base_offset=log.log_end_offset, timestamp=logbook.now_ms, producer_id=producer_id,
            producer_epoch=0, coordinator_epoch=0, leader_epoch=0,
        )  # fmt: skip
        log.append(marker, None, logbook.now_ms)

    produce(1, 0)  # 1
    produce(2, 0)  # 2
    assert log.last_stable_offset(3) == 1
    assert log.last_stable_offset(1) == 1
    assert log.aborted_transactions(0, 3) == [], "and those that are aborted from here on are found all the same"
    end(1, committed=False)  # 3
    assert log.last_stable_offset(3) == 1, "the marker is not committed"
    assert log.last_stable_offset(4) == 2
    produce(1, 1)  # 4
    end(2, committed=True)  # 5
    assert log.last_stable_offset(6) == 4
    end(1, committed=False)  # 6
    assert log.last_stable_offset(7) == 7
    assert [tuple(entry) for entry in log.aborted_transactions(0, 7)] == [(1, 1, 3, 2), (1, 4, 6, 7)]
    assert [entry.first_offset for entry in log.aborted_transactions(4, 7)] == [4]
    assert [entry.first_offset for entry in log.aborted_transactions(0, 2)] == [1]


def test_a_snapshot_brings_the_same_state_back(producers, header):
    producers.update(header(110, 10, transactional=True))
    producers.update(header(111, 5, epoch=9, producer_id=8))
    entries = decode_snapshot(encode_snapshot(producers.to_snapshot()))
    again = Producers()
    again.load(entries, 112, 0, DAY_MS)
    assert again.to_snapshot() == producers.to_snapshot()
    assert again.first_unstable_offset(112) == 110
    assert isinstance(again.check(header(112, 10, transactional=True)), ProducerBatch), "the last batch only"
    assert again.check(header(112, 9, transactional=True)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_snapshot_of_a_producer_without_batches_brings_none_back(producers, header):
    """A marker of a later epoch leaves none: the next batch is the first of the producer."""
    producers.update(header(110, 10, transactional=True))
    producers.end_transaction(header(111, -1, epoch=9, transactional=True), 1, 0, aborted=True)
    again = Producers()
    again.load(decode_snapshot(encode_snapshot(producers.to_snapshot())), 112, 0, DAY_MS)
    producer_id = header(0, 0).producer_id
    for state in (producers, again):
        assert state.by_id[producer_id].epoch == 9
        assert list(state.by_id[producer_id].batches) == []
        assert state.check(header(112, 0, epoch=9, transactional=True)) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("last_epoch", "is_open", "epoch", "version", "error"),
    [
        (3, True, 4, 2, ErrorCode.NONE),
        # From version 2 on the marker's epoch is above that of the data.
        (3, True, 3, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, True, 3, 1, ErrorCode.NONE),
        (3, True, 2, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        # A marker that is repeated, because its response was lost.
        (3, False, 3, 2, ErrorCode.NONE),
        (3, False, 2, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        # No epoch is above the last one.
        (MAX_PRODUCER_EPOCH, True, MAX_PRODUCER_EPOCH, 2, ErrorCode.NONE),
    ],
)
def test_marker_needs_an_epoch_above_that_of_the_open_transaction(header, last_epoch, is_open, epoch, version, error):
    producers = Producers()
    producers.update(header(110, 0, epoch=last_epoch, transactional=True))
    if not is_open:
        producers.end_transaction(header(111, -1, epoch=last_epoch, transactional=True), 1, 0, aborted=False)
    producer_id = header(0, 0).producer_id
    assert check_marker(producers, producer_id, epoch, 0, version) is error
    assert check_marker(producers, 99, epoch, 0, version) is ErrorCode.NONE


def test_a_damaged_snapshot_is_refused(producers):
    whole = encode_snapshot(producers.to_snapshot())
    for at in range(len(whole)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(whole[:at])
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])


def test_truncation_brings_the_state_before_it_back(logbook):
    log = logbook.open(LogConfig(segment_bytes=500))
    for number in range(20):
        logbook.append(log, b"x" * 100, producer_id=7, producer_epoch=0, base_sequence=number)
    assert len(log.segments) > 4
    log.truncate_to(11, logbook.now_ms)
    assert log.producers.by_id[7].last_sequence == 10
    assert log.producers.end_offset == 11
    log.truncate_to(1, logbook.now_ms)
    assert log.producers.by_id[7].last_sequence == 0
    log.truncate_to(0, logbook.now_ms)
    assert log.producers.by_id == {}
    assert not list(logbook.path.glob("*.snapshot"))


# ---- after a leader change


def test_gap_after_a_leader_change_waits_for_the_batch_before_it(producers, header):
    producers.takeover_offset = 110
    assert producers.check(header(110, 11)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert producers.check(header(110, 3, epoch=1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert producers.check(header(110, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "it is no gap"
    assert producers.check(header(110, 10)) is ErrorCode.NONE
    assert isinstance(producers.check(header(110, 9)), ProducerBatch)


def test_gap_after_a_batch_for_the_new_leader_is_out_of_order(producers, header):
    producers.takeover_offset = 110
    producers.update(header(110, 10))
    assert producers.check(header(111, 12)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(111, 11)) is ErrorCode.NONE


def test_first_batch_of_a_producer_begins_at_sequence_zero_after_a_leader_change(producers, header):
    producers.takeover_offset = 110
    assert producers.check(header(110, 1, producer_id=8)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert producers.check(header(110, 0, producer_id=8)) is ErrorCode.NONE


# ---- during the verification with the transaction coordinator (KIP-890)


def test_batch_behind_a_refused_batch_is_not_written_before_it(header):
    state = Producers()
    for sequence in (0, 5):
        state.verify(8, 0, sequence, 1, bumps_epochs=False)
    assert state.check(header(100, 5, producer_id=8)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(header(100, 0, producer_id=8)) is ErrorCode.NONE
    state.update(header(100, 0, count=5, producer_id=8, transactional=True))
    assert state.check(header(105, 5, producer_id=8, transactional=True)) is ErrorCode.NONE


def test_a_lower_sequence_and_a_newer_epoch_move_what_is_asked_for(header):
    state = Producers()
    asked = state.verify(8, 0, 5, 1, bumps_epochs=False)
    assert state.check(header(100, 5, producer_id=8)) is ErrorCode.NONE
    assert state.verify(8, 0, 3, 1, bumps_epochs=False) is asked
    assert state.check(header(100, 5, producer_id=8)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    state.verify(8, 1, 7, 1, bumps_epochs=False)
    assert state.check(header(100, 7, producer_id=8, epoch=1)) is ErrorCode.NONE


def test_transaction_with_its_own_epoch_begins_at_sequence_zero(producers, header):
    producers.verify(8, 0, 3, 1, bumps_epochs=True)
    assert producers.check(header(110, 3, producer_id=8)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.verify(7, 0, 10, 1, bumps_epochs=True)
    assert producers.check(header(110, 10)) is ErrorCode.NONE


def test_a_batch_or_a_marker_ends_the_asking_and_time_does(header, logbook):
    state = Producers()
    state.verify(8, 0, 0, 1, bumps_epochs=True)
    state.update(header(100, 0, producer_id=8, transactional=True))
    assert not state.verifications
    state.verify(8, 0, 1, 1, bumps_epochs=True)
    state.end_transaction(header(101, -1, producer_id=8, transactional=True), 1, 0, aborted=False)
    assert not state.verifications
    state.verify(8, 0, 1, 1, bumps_epochs=True)
    state.expire(DAY_MS, DAY_MS)
    assert state.verifications
    state.expire(DAY_MS + 1, DAY_MS)
    assert not state.verifications
