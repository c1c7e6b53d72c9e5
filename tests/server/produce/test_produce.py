"""Produce: the checks of a batch, the stored batch, and the response."""

from __future__ import annotations

import time
from typing import Any

import odradek
import pytest
from odradek.metadata.image import PartitionImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records import batch as batches
from odradek.protocol.records.batch import read_header, seal, write_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record, decode_batch, encode_batch

from compat_tests.wire import ConnectionClosed
from tests.server.harness.data_path import DataPath, batch_of, values_of

HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def changed(batch: bytearray, *, sealed: bool = True, **fields: Any) -> bytearray:
    """Returns the batch with other values in its header. Its CRC is correct, unless `sealed` is False."""
    header = read_header(batch)._replace(**fields)
    write_header(batch, 0, header)
    if sealed:
        seal(batch, 0, len(batch))
    return batch


# ---- accepted batches


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_writes_and_returns_the_offset(path: DataPath, version: int) -> None:
    topic = path.topic()
    assert path.produce(topic, batch_of(b"a", b"b"), version=version).base_offset == 0
    response = path.produce(topic, batch_of(b"c"), version=version)
    assert (response.error_code, response.base_offset, response.log_append_time_ms) == (0, 2, -1)
    assert response.log_start_offset == (0 if version >= 5 else -1)
    assert values_of(path.fetch(topic)) == [b"a", b"b", b"c"]


def test_a_batch_is_stored_as_it_came_but_for_its_offset_and_epoch(path: DataPath) -> None:
    topic = path.topic()
    path.produce(topic, batch_of(b"first"))
    sent = batch_of(b"v" * 100, compression=Compression.ZSTD)
    path.produce(topic, sent)
    stored = bytes(path.fetch(topic, 1).records or b"")
    header = read_header(stored)
    assert (header.base_offset, header.leader_epoch) == (1, path.hosted(topic).leader_epoch)
    assert stored[16:] == sent[16:]


@pytest.mark.parametrize("acks", [1, -1])
def test_both_kinds_of_acknowledgement_are_given(path: DataPath, acks: int) -> None:
    topic = path.topic()
    assert path.produce(topic, batch_of(b"v"), acks=acks).base_offset == 0


def test_acks_0_is_not_answered(path: DataPath) -> None:
    topic = path.topic()
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch_of(b"v"))])]
    path.client.send(ProduceRequest(acks=0, topic_data=data), 9)
    assert values_of(path.fetch(topic)) == [b"v"]


def test_a_failure_with_acks_0_closes_the_connection(path: DataPath) -> None:
    data = [TopicProduceData("nowhere", partition_data=[PartitionProduceData(0, batch_of(b"v"))])]
    number = path.client.send(ProduceRequest(acks=0, topic_data=data), 9)
    with pytest.raises(ConnectionClosed):
        path.client.receive(ProduceRequest(), 9, number)


def test_each_partition_gets_its_own_result(path: DataPath) -> None:
    topic = path.topic(partitions=2)
    data = [PartitionProduceData(index, batch_of(b"v")) for index in (0, 1, 2)]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(topic, partition_data=data)])
    (response,) = path.client.call(request, 9).responses
    codes = {one.index: one.error_code for one in response.partition_responses}
    assert codes == {0: 0, 1: 0, 2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


# ---- rejected batches


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acknowledgements_are_refused(path: DataPath, acks: int) -> None:
    topic = path.topic()
    assert path.produce(topic, batch_of(b"v"), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert path.hosted(topic).log_end_offset == 0


def test_unknown_topics_return_errors_by_name_and_by_id(path: DataPath) -> None:
    assert path.produce("nowhere", batch_of(b"v")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    data = [TopicProduceData(topic_id=b"x" * 16, partition_data=[PartitionProduceData(0, batch_of(b"v"))])]
    (response,) = path.client.call(ProduceRequest(acks=1, topic_data=data), 13).responses
    assert response.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def damaged(batch: bytearray) -> bytearray:
    batch[-1] ^= 1
    return batch


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: None, ErrorCode.INVALID_RECORD),
        (lambda: b"", ErrorCode.INVALID_RECORD),
        (lambda: batch_of(b"v")[:-1], ErrorCode.INVALID_RECORD),
        (lambda: batch_of(b"v") + batch_of(b"v"), ErrorCode.INVALID_RECORD),
        (lambda: damaged(batch_of(b"v")), ErrorCode.CORRUPT_MESSAGE),
        (lambda: changed(batch_of(b"v"), magic=1), ErrorCode.INVALID_RECORD),
        (lambda: changed(batch_of(b"v"), magic=0), ErrorCode.INVALID_RECORD),
        (lambda: changed(batch_of(b"v"), magic=3), ErrorCode.CORRUPT_MESSAGE),
        (lambda: changed(batch_of(b"v"), length=5), ErrorCode.CORRUPT_MESSAGE),
        (lambda: changed(batch_of(b"v"), base_offset=5), ErrorCode.INVALID_RECORD),
        (lambda: changed(batch_of(b"v"), record_count=2), ErrorCode.INVALID_RECORD),
        (lambda: changed(batch_of(b"v"), record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
        (lambda: changed(batch_of(b"v"), record_count=-1, last_offset_delta=-2), ErrorCode.INVALID_RECORD),
        (lambda: changed(batch_of(b"v"), last_offset_delta=3), ErrorCode.INVALID_RECORD),
        (lambda: batch_of(b"v", control=True), ErrorCode.INVALID_RECORD),
        (lambda: batch_of(b"v", producer_id=5, producer_epoch=0, base_sequence=-1), ErrorCode.INVALID_RECORD),
        (lambda: batch_of(bytes(1_100_000)), ErrorCode.MESSAGE_TOO_LARGE),
        (lambda: batch_of(b"v", timestamp=now_ms() + 2 * HOUR_MS), ErrorCode.INVALID_TIMESTAMP),
        (lambda: changed(batch_of(b"v"), attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_a_batch_that_must_not_be_written_is_refused_with_kafkas_code(
    path: DataPath, make: Any, error: ErrorCode
) -> None:
    topic = path.topic()
    response = path.produce(topic, make())
    assert ErrorCode(response.error_code) is error
    assert response.base_offset == -1
    assert path.hosted(topic).log_end_offset == 0
    assert path.produce(topic, batch_of(b"good")).base_offset == 0


def test_a_torn_batch_behind_a_whole_one_is_cut_off(path: DataPath) -> None:
    topic = path.topic()
    assert path.produce(topic, batch_of(b"v") + batch_of(b"torn")[:12]).error_code == 0
    assert values_of(path.fetch(topic)) == [b"v"]


def test_zstd_needs_version_7(path: DataPath) -> None:
    topic = path.topic()
    batch = batch_of(b"v", compression=Compression.ZSTD)
    assert path.produce(topic, batch, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert path.produce(topic, batch, version=7).error_code == 0


def test_a_batch_larger_than_a_segment_may_be_is_refused(path: DataPath) -> None:
    topic = path.topic(segment_bytes="1048576", max_message_bytes="3000000")
    response = path.produce(topic, batch_of(bytes(1_200_000)))
    assert response.error_code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_internal_topics_are_written_by_the_admin_client_only(path: DataPath, broker: odradek.Broker) -> None:
    from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest

    path.client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    response = path.produce("__consumer_offsets", batch_of(b"v"))
    assert response.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    admin = DataPath(broker, client_id="__admin_client")
    assert admin.produce("__consumer_offsets", batch_of(b"v")).error_code == 0


def test_no_more_replicas_are_asked_to_be_in_sync_than_there_are(path: DataPath) -> None:
    topic = path.topic(min_insync_replicas="2")
    assert path.produce(topic, batch_of(b"v"), acks=-1).error_code == 0


def test_too_few_replicas_in_sync_refuse_acks_all_only(path: DataPath) -> None:
    topic = path.topic(min_insync_replicas="2")
    hosted = path.hosted(topic)
    here, away = hosted.role.local_id, 99
    hosted.take_role(PartitionImage((here, away), (here,), here, hosted.leader_epoch, 1, ()), now_ms())
    assert path.produce(topic, batch_of(b"v"), acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert path.produce(topic, batch_of(b"v"), acks=1).error_code == 0
    assert hosted.high_watermark == 0, "too few have it"


def test_timed_out_produce_returns_base_offset(path: DataPath) -> None:
    topic = path.topic()
    assert path.produce(topic, batch_of(b"v")).error_code == 0
    hosted = path.hosted(topic)
    here, away = hosted.role.local_id, 99
    hosted.take_role(PartitionImage((here, away), (here, away), here, hosted.leader_epoch, 1, ()), now_ms())
    reported = path.produce(topic, batch_of(b"w"), acks=-1)
    assert (reported.error_code, reported.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 1)


# ---- batches whose records are read


def test_a_compacted_topic_takes_no_record_without_a_key_and_says_which(path: DataPath) -> None:
    topic = path.topic(cleanup_policy="compact")
    records = [Record(n, now_ms(), b"k" if n % 2 else None, b"v") for n in range(4)]
    response = path.produce(topic, bytearray(encode_batch(records)))
    assert response.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in response.record_errors] == [0, 2]
    words = f"Compacted topic cannot accept message without key in topic partition {topic}-0"
    assert {one.batch_index_error_message for one in response.record_errors} == {words}
    assert "2 record errors in total" in (response.error_message or "")
    assert path.produce(topic, batch_of(b"v", key=b"")).error_code == 0


def test_timestamps_out_of_range_are_refused_record_by_record(path: DataPath) -> None:
    topic = path.topic(message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
    now = now_ms()
    records = [Record(0, now, b"k", b"v"), Record(1, now - 60_000, b"k", b"v"), Record(2, now + 60_000, b"k", b"v")]
    response = path.produce(topic, bytearray(encode_batch(records)))
    assert response.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [one.batch_index for one in response.record_errors] == [1, 2]
    assert path.produce(topic, batch_of(b"v")).error_code == 0


def test_the_time_of_the_log_replaces_the_producers(path: DataPath) -> None:
    topic = path.topic(message_timestamp_type="LogAppendTime")
    before = now_ms()
    response = path.produce(topic, batch_of(b"v", timestamp=5))
    assert before <= response.log_append_time_ms <= now_ms()
    stored = bytes(path.fetch(topic).records or b"")
    header = read_header(stored)
    batches.check_crc(stored, 0, header)
    assert header.timestamp_type is batches.TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in decode_batch(stored)] == [response.log_append_time_ms]


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("source", list(Compression))
def test_the_topics_codec_replaces_the_producers(path: DataPath, target: str, source: Compression) -> None:
    topic = path.topic(compression_type=target)
    sent = batch_of(b"a" * 1000, b"b", compression=source, producer_id=7, producer_epoch=0, base_sequence=0)
    assert path.produce(topic, sent).error_code == 0
    stored = bytes(path.fetch(topic).records or b"")
    header = read_header(stored)
    batches.check_crc(stored, 0, header)
    assert header.compression.name.lower() == ("none" if target == "uncompressed" else target)
    assert (header.producer_id, header.base_sequence, header.record_count) == (7, 0, 2)
    assert values_of(path.fetch(topic)) == [b"a" * 1000, b"b"]


@pytest.mark.parametrize("largest", [0, 1, 2])
@pytest.mark.parametrize("of_log", [False, True])
def test_recompressed_batch_has_the_largest_timestamp_of_its_records(
    path: DataPath, largest: int, of_log: bool
) -> None:
    topic = path.topic(compression_type="gzip", message_timestamp_type="LogAppendTime" if of_log else "CreateTime")
    before = now_ms()
    times = [before - 5_000 + (4_000 if number == largest else 0) for number in range(3)]
    sent = changed(bytearray(encode_batch([Record(n, at, b"k", b"v") for n, at in enumerate(times)])), max_timestamp=5)
    response = path.produce(topic, sent)
    assert response.error_code == 0
    header = read_header(bytes(path.fetch(topic).records or b""))
    assert header.max_timestamp == (response.log_append_time_ms if of_log else max(times))
    assert not of_log or before <= header.max_timestamp <= now_ms()


def test_batch_too_large_after_recompression_is_rejected(path: DataPath) -> None:
    topic = path.topic(compression_type="uncompressed", max_message_bytes="10000")
    sent = batch_of(bytes(100_000), compression=Compression.ZSTD)
    assert len(sent) < 1000
    assert path.produce(topic, sent).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_changed_setting_of_the_topic_holds_for_the_next_batch(path: DataPath) -> None:
    topic = path.topic()
    assert path.produce(topic, batch_of(bytes(5000))).error_code == 0
    change = AlterableConfig("max.message.bytes", 0, "1000")
    request = IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(2, topic, [change])])
    assert path.client.call(request, 1).responses[0].error_code == 0
    assert path.produce(topic, batch_of(bytes(5000))).error_code == ErrorCode.MESSAGE_TOO_LARGE


# ---- idempotence


def sequenced(sequence: int, *values: bytes, epoch: int = 0, producer_id: int = 77) -> bytearray:
    return batch_of(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def test_producer_ids_are_all_different_and_begin_with_epoch_0(path: DataPath) -> None:
    responses = [path.client.call(InitProducerIdRequest(None, 60_000), 4) for _ in range(1500)]
    assert {(one.error_code, one.producer_epoch) for one in responses} == {(0, 0)}
    assert len({one.producer_id for one in responses}) == 1500


def test_half_an_identity_is_refused(path: DataPath) -> None:
    for request in (InitProducerIdRequest("t", 60_000, -1, 5), InitProducerIdRequest(None, 0, 5, -1)):
        response = path.client.call(request, 4)
        assert (response.error_code, response.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_a_duplicate_is_answered_with_the_first_offsets_and_not_written(path: DataPath) -> None:
    topic = path.topic()
    for sequence in range(5):
        assert path.produce(topic, sequenced(sequence, b"v")).base_offset == sequence
    for sequence in range(5):
        response = path.produce(topic, sequenced(sequence, b"v"))
        assert (response.error_code, response.base_offset) == (0, sequence)
    assert path.hosted(topic).log_end_offset == 5


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (lambda: sequenced(3, b"v", epoch=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (lambda: sequenced(1, b"v", epoch=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (lambda: sequenced(0, b"v", epoch=1), ErrorCode.INVALID_PRODUCER_EPOCH),
        (lambda: sequenced(2, b"v", epoch=3), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (lambda: sequenced(0, b"v", epoch=3), ErrorCode.NONE),
        (lambda: sequenced(2, b"v", epoch=2), ErrorCode.NONE),
        (lambda: sequenced(9, b"v", producer_id=78), ErrorCode.NONE),
    ],
)
def test_sequences_and_epochs_are_held_to_their_order(path: DataPath, batch: Any, error: ErrorCode) -> None:
    topic = path.topic()
    assert path.produce(topic, sequenced(0, b"a", b"b", epoch=2)).error_code == 0
    assert ErrorCode(path.produce(topic, batch()).error_code) is error


def test_transactional_batches_are_not_written_without_their_coordinator(path: DataPath) -> None:
    topic = path.topic()
    batch = batch_of(b"v", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    without_id = path.produce(topic, batch)
    assert without_id.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert path.produce(topic, batch, transactional_id="t").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert path.hosted(topic).log_end_offset == 0
