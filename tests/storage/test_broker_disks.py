"""A broker whose log directory is full returns KAFKA_STORAGE_ERROR for it, and keeps serving its other directory."""

from __future__ import annotations

import contextlib

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import ConnectionClosed, WireClient

pytestmark = pytest.mark.usefixtures("processes")

PARTITIONS = 6
#: The segment after a partition's only record. The broker appends the next record to it.
SECOND_SEGMENT = "00000000000000000001.log"
BATCH = encode_batch([Record(0, 1000, None, b"x" * 100)])


def produce(client):
    """Produces to every partition of the topic. Returns partition -> error code."""
    data = [PartitionProduceData(index=index, records=BATCH) for index in range(PARTITIONS)]
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    response = client.call(request, 9)
    return {one.index: ErrorCode(one.error_code) for one in response.responses[0].partition_responses}


def fetch(client):
    partitions = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(PARTITIONS)
    ]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=partitions)]
    )
    response = client.call(request, 12)
    return {
        one.partition_index: (ErrorCode(one.error_code), len(one.records or b""))
        for one in response.responses[0].partitions
    }


def ends(client):
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)])
    return {one.partition_index: ErrorCode(one.error_code) for one in client.call(request, 7).topics[0].partitions}


def test_a_full_log_directory_goes_offline_and_the_other_goes_on(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    broker = OdradekProcess(tmp_path / "broker", {"log.dirs": f"{one},{two}"})
    try:
        broker.start()
        with WireClient(broker.bootstrap) as client:
            wanted = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
            assert not client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7).topics[0].error_code
            assert set(produce(client).values()) == {ErrorCode.NONE}
        in_two = {int(path.name.rpartition("-")[2]) for path in two.glob("t-*")}
        assert 0 < len(in_two) < PARTITIONS, "both directories are used"
        broker.stop()
        # A write to this partition of `two` fails as on a full disk.
        (two / f"t-{min(in_two)}" / SECOND_SEGMENT).symlink_to("/dev/full")
        broker.start()
        with WireClient(broker.bootstrap) as client:
            errors = produce(client)
            assert errors.pop(min(in_two)) is ErrorCode.KAFKA_STORAGE_ERROR
            errors = produce(client)
            expected = {
                index: ErrorCode.KAFKA_STORAGE_ERROR if index in in_two else ErrorCode.NONE
                for index in range(PARTITIONS)
            }
            assert errors == expected
            for index, (error, size) in fetch(client).items():
                assert error is expected[index]
                assert size == (0 if index in in_two else 3 * len(BATCH))
            assert ends(client) == expected
        assert f"log directory {two} is offline" in broker.log_file.read_text()
    finally:
        broker.kill()


def test_a_broker_without_any_log_directory_left_halts_and_starts_again_when_there_is_room(tmp_path):
    broker = OdradekProcess(tmp_path)
    try:
        broker.start()
        with WireClient(broker.bootstrap) as client:
            wanted = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
            assert not client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7).topics[0].error_code
            assert set(produce(client).values()) == {ErrorCode.NONE}
        broker.stop()
        segment = broker.data_dir / "t-0" / SECOND_SEGMENT
        segment.symlink_to("/dev/full")
        broker.start()
        with WireClient(broker.bootstrap) as client, contextlib.suppress(ConnectionClosed, OSError):
            produce(client)
        assert broker.process.wait(60) == 1
        assert "halting: the broker cannot continue" in broker.log_file.read_text()
        segment.unlink()
        broker.start()
        with WireClient(broker.bootstrap) as client:
            assert set(ends(client).values()) == {ErrorCode.NONE}
    finally:
        broker.kill()
