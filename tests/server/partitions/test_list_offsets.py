"""ListOffsets and DescribeProducers."""

from __future__ import annotations

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from tests.server.harness.data_path import DataPath, batch_of

pytestmark = pytest.mark.usefixtures("sockets")

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
#: Timestamps of records must not be in the future.
BASE_MS = 1_700_000_000_000


@pytest.fixture
def topic(path: DataPath) -> str:
    """Returns a topic with offsets 0 to 5, of which 3 has the largest timestamp."""
    name = path.topic()
    for times in ((0, 0), (10, 30), (20, 20)):
        for time in times:
            path.produce(name, batch_of(b"v", timestamp=BASE_MS + time))
    return name


@pytest.mark.parametrize("version", range(1, 12))
def test_earliest_and_latest_offsets_are_returned_in_every_version(path: DataPath, topic: str, version: int) -> None:
    latest = path.list_offset(topic, LATEST, version=version)
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 6, -1)
    earliest = path.list_offset(topic, EARLIEST, version=version)
    assert (earliest.error_code, earliest.offset, earliest.timestamp) == (0, 0, -1)
    epoch = 0 if version >= 4 else -1
    assert (latest.leader_epoch, earliest.leader_epoch) == (epoch, epoch)


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"),
    [(0, 0, 0), (BASE_MS, 0, 0), (BASE_MS + 1, 2, 10), (BASE_MS + 11, 3, 30), (BASE_MS + 30, 3, 30)],
)
def test_a_time_finds_the_first_record_that_is_not_older(
    path: DataPath, topic: str, timestamp: int, offset: int, found: int
) -> None:
    response = path.list_offset(topic, timestamp)
    assert (response.error_code, response.offset, response.timestamp) == (0, offset, BASE_MS + found)


def test_a_time_after_all_records_finds_nothing(path: DataPath, topic: str) -> None:
    response = path.list_offset(topic, BASE_MS + 31)
    assert (response.error_code, response.offset, response.timestamp, response.leader_epoch) == (0, -1, -1, -1)


@pytest.mark.parametrize(
    ("question", "since", "offset", "timestamp"),
    [
        (MAX_TIMESTAMP, 7, 3, BASE_MS + 30),
        (EARLIEST_LOCAL, 8, 0, -1),
        (LATEST_TIERED, 9, -1, -1),
        (EARLIEST_PENDING_UPLOAD, 11, -1, -1),
    ],
)
def test_special_questions_are_answered_since_their_version(
    path: DataPath, topic: str, question: int, since: int, offset: int, timestamp: int
) -> None:
    before = path.list_offset(topic, question, version=since - 1)
    assert ErrorCode(before.error_code) is ErrorCode.UNSUPPORTED_VERSION
    response = path.list_offset(topic, question, version=since)
    assert (response.error_code, response.offset, response.timestamp) == (0, offset, timestamp)


def test_a_question_that_does_not_exist_is_unsupported(path: DataPath, topic: str) -> None:
    assert path.list_offset(topic, -7).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_empty_log_has_ends_and_no_times(path: DataPath) -> None:
    empty = path.topic()
    assert path.list_offset(empty, LATEST).offset == path.list_offset(empty, EARLIEST).offset == 0
    assert path.list_offset(empty, MAX_TIMESTAMP).offset == -1
    assert path.list_offset(empty, 0).offset == -1


def test_deleted_records_are_found_by_neither_end_nor_time(path: DataPath, topic: str) -> None:
    path.client.call(DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 3)])], 1000), 2)
    assert path.list_offset(topic, EARLIEST).offset == 3
    assert path.list_offset(topic, 0).offset == 3


def test_a_partition_that_is_asked_for_twice_is_an_invalid_request(path: DataPath, topic: str) -> None:
    asked = [ListOffsetsPartition(0, -1, LATEST), ListOffsetsPartition(0, -1, EARLIEST)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, asked)])
    (response,) = path.client.call(request, 7).topics
    assert {one.error_code for one in response.partitions} == {ErrorCode.INVALID_REQUEST}


def test_partitions_epochs_and_isolation_are_checked(path: DataPath, topic: str) -> None:
    assert path.list_offset("nowhere", LATEST).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert path.list_offset(topic, LATEST, index=4).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert path.list_offset(topic, LATEST, epoch=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert path.list_offset(topic, LATEST, isolation_level=1).offset == 6


def test_producers_are_described_with_what_they_wrote_last(path: DataPath) -> None:
    topic = path.topic()
    batch = batch_of(b"a", b"b", timestamp=BASE_MS, producer_id=4711, producer_epoch=3, base_sequence=10)
    assert path.produce(topic, batch).error_code == 0
    response = path.client.call(DescribeProducersRequest([DescribeProducersRequestTopic(topic, [0, 1])]), 0).topics[0]
    (known, unknown) = response.partitions
    (producer,) = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (4711, 3, 11)
    assert (producer.last_timestamp, producer.coordinator_epoch, producer.current_txn_start_offset) == (BASE_MS, -1, -1)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_producers_of_topics_that_cannot_be_are_refused(path: DataPath) -> None:
    for name, error in (("no such", ErrorCode.INVALID_TOPIC_EXCEPTION), ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        response = path.client.call(DescribeProducersRequest([DescribeProducersRequestTopic(name, [0])]), 0).topics[0]
        assert response.partitions[0].error_code == error
