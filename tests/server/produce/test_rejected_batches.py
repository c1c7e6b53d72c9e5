"""After a batch was rejected for a transient reason, later batches are not written before it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.records.batch import NO_SEQUENCE
from odradek.server.partitions.append_result import AppendResult
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.produce.rejected_batches import MAX_REMEMBERED, REMEMBERED_S, RejectedBatches, Sequence, sequence_of

from tests.server.harness.data_path import DataPath, batch_of

NOT_LEADER, NOT_ENOUGH = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS
OFFLINE = ErrorCode.KAFKA_STORAGE_ERROR
PLACE = ("orders", 0)


def sequenced(sequence: int, epoch: int = 0) -> bytearray:
    return batch_of(b"v", producer_id=7, producer_epoch=epoch, base_sequence=sequence)


def is_offline(path: DataPath, topic: str, offline: bool) -> None:
    """Sets or clears a transient error. Most transient errors that are more frequent need a cluster."""
    hosted = path.hosted(topic)
    hosted.offline = offline
    hosted.refresh_append_state()


def test_a_gap_is_refused_as_the_batch_was_that_is_missing(path: DataPath) -> None:
    """The error is not OUT_OF_ORDER_SEQUENCE_NUMBER, which costs librdkafka its epoch."""
    topic = path.topic()
    assert path.produce(topic, sequenced(0), acks=-1).error_code == 0
    is_offline(path, topic, True)
    assert path.produce(topic, sequenced(1), acks=-1).error_code == OFFLINE
    is_offline(path, topic, False)
    assert path.produce(topic, sequenced(2), acks=-1).error_code == OFFLINE
    assert path.produce(topic, sequenced(3), acks=-1).error_code == OFFLINE
    offsets = [path.produce(topic, sequenced(sequence), acks=-1).base_offset for sequence in (1, 2, 3)]
    assert offsets == [1, 2, 3]


@pytest.mark.parametrize("version", [12, 13])
def test_so_it_is_of_one_that_is_refused_when_a_thread_has_opened_it(
    path: DataPath, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = path.topic(compression_type="gzip")
    rejected = [AppendResult(NOT_ENOUGH)]
    append_opened = HostedPartition.append_opened

    def rejects_one(hosted: HostedPartition, *batch: Any) -> AppendResult:
        return rejected.pop() if rejected else append_opened(hosted, *batch)

    monkeypatch.setattr(HostedPartition, "append_opened", rejects_one)
    first, second = (batch_of(bytes(10_000), producer_id=7, producer_epoch=0, base_sequence=n) for n in (0, 1))
    assert path.produce(topic, first, version=version).error_code == NOT_ENOUGH and not rejected
    assert path.produce(topic, second, version=version).error_code == NOT_ENOUGH
    assert [path.produce(topic, one, version=version).base_offset for one in (first, second)] == [0, 1]


@pytest.mark.parametrize("version", [12, 13])
def test_unknown_producer_cannot_begin_with_its_second_batch(path: DataPath, version: int) -> None:
    """Otherwise librdkafka would treat its first batch as written, too."""
    topic = path.topic()
    is_offline(path, topic, True)
    assert path.produce(topic, sequenced(0), acks=-1, version=version).error_code == OFFLINE
    is_offline(path, topic, False)
    assert path.produce(topic, sequenced(1), acks=-1, version=version).error_code == OFFLINE
    assert path.produce(topic, sequenced(0), acks=-1, version=version).base_offset == 0
    assert path.produce(topic, sequenced(1), acks=-1, version=version).base_offset == 1


def test_so_it_is_where_this_broker_has_not_heard_of_the_topic_yet(path: DataPath) -> None:
    name = "comes-late"
    assert path.produce(name, sequenced(0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    path.client.call(CreateTopicsRequest(topics=[CreatableTopic(name, 1, 1)], timeout_ms=10_000), 7)
    assert path.produce(name, sequenced(1)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert path.produce(name, sequenced(0)).base_offset == 0
    assert path.produce(name, sequenced(1)).base_offset == 1


def test_a_new_epoch_begins_without_what_was_refused(path: DataPath) -> None:
    topic = path.topic()
    is_offline(path, topic, True)
    assert path.produce(topic, sequenced(4), acks=-1).error_code == OFFLINE
    is_offline(path, topic, False)
    assert path.produce(topic, sequenced(0, epoch=1), acks=-1).base_offset == 0


def test_batch_written_by_another_leader_is_not_awaited(path: DataPath) -> None:
    topic = path.topic()
    assert path.produce(topic, sequenced(0), acks=-1).error_code == 0
    is_offline(path, topic, True)
    assert path.produce(topic, sequenced(1), acks=-1).error_code == OFFLINE
    is_offline(path, topic, False)
    hosted = path.hosted(topic)
    assert hosted.append(sequenced(1), int(time.time() * 1000), version=12).error == 0, "as if it had been fetched"
    assert path.produce(topic, sequenced(2), acks=-1).base_offset == 2


# ---- remembered batches


def at(first: int, epoch: int = 0, producer_id: int = 7) -> Sequence:
    return Sequence(producer_id, epoch, first)


def test_first_rejected_batch_blocks_later_ones_until_resent() -> None:
    rejected = RejectedBatches(lambda: 0.0)
    rejected.note(PLACE, at(5), NOT_LEADER)
    rejected.note(PLACE, at(6), NOT_ENOUGH)
    assert rejected.error_for(PLACE, at(6), NO_SEQUENCE) == NOT_LEADER
    rejected.note(PLACE, at(4), NOT_ENOUGH)
    assert rejected.error_for(PLACE, at(5), NO_SEQUENCE) == NOT_ENOUGH
    assert rejected.error_for(PLACE, at(3), NO_SEQUENCE) == 0, "it is before"
    assert rejected.error_for(("orders", 1), at(6), NO_SEQUENCE) == 0
    assert rejected.error_for(PLACE, at(6, producer_id=8), NO_SEQUENCE) == 0
    assert rejected.error_for(PLACE, at(4), NO_SEQUENCE) == 0 and not rejected
    assert rejected.error_for(PLACE, at(5), NO_SEQUENCE) == 0


def test_sequences_that_begin_anew_are_behind() -> None:
    rejected = RejectedBatches(lambda: 0.0)
    rejected.note(PLACE, at((1 << 31) - 1), NOT_LEADER)
    assert rejected.error_for(PLACE, at(0), NO_SEQUENCE) == NOT_LEADER


def test_rejected_batch_expires() -> None:
    now = 0.0
    rejected = RejectedBatches(lambda: now)
    rejected.note(PLACE, at(0), NOT_LEADER)
    now = REMEMBERED_S - 0.001
    assert rejected.error_for(PLACE, at(1), NO_SEQUENCE) == NOT_LEADER
    now = REMEMBERED_S
    assert rejected.error_for(PLACE, at(1), NO_SEQUENCE) == 0


@pytest.mark.parametrize(
    ("written", "is_missing"), [(NO_SEQUENCE, True), (4, True), (5, False), (9, False), ((1 << 31) - 1, True)]
)
def test_rejected_batch_is_forgotten_once_in_log(written: int, is_missing: bool) -> None:
    """A different leader has written the batch, and this broker has replicated that leader's log."""
    rejected = RejectedBatches(lambda: 0.0)
    rejected.note(PLACE, at(5), NOT_LEADER)
    assert bool(rejected.error_for(PLACE, at(6), written)) == is_missing
    assert bool(rejected) == is_missing


def test_permanent_errors_do_not_block_later_batches() -> None:
    rejected = RejectedBatches(lambda: 0.0)
    for error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        rejected.note(PLACE, at(0), error)
    assert not rejected


def test_only_so_many_are_remembered() -> None:
    rejected = RejectedBatches(lambda: 0.0)
    for producer_id in range(MAX_REMEMBERED + 1):
        rejected.note(PLACE, at(0, producer_id=producer_id), NOT_LEADER)
    assert rejected.error_for(PLACE, at(1, producer_id=0), NO_SEQUENCE) == 0
    assert rejected.error_for(PLACE, at(1, producer_id=1), NO_SEQUENCE) == NOT_LEADER


@pytest.mark.parametrize(("producer_id", "epoch", "first"), [(0, 0, 0), (7, 2, 9)])
def test_idempotent_batch_has_the_sequence_of_its_header(producer_id: int, epoch: int, first: int) -> None:
    batch = batch_of(b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=first)
    assert sequence_of(batch) == Sequence(producer_id, epoch, first)


def test_non_idempotent_batches_have_no_sequence() -> None:
    assert sequence_of(None) is None and sequence_of(bytearray(10)) is None and sequence_of(batch_of(b"v")) is None
    assert sequence_of(sequenced(3, epoch=2)) == Sequence(7, 2, 3)
