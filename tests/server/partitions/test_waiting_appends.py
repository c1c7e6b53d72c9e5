"""Produce requests that wait for a thread that decompresses the batch, or for the disk because of `flush.messages`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.compression import Compression
from odradek.server.network.frame_buffer import READ_BUFFER_BYTES
from odradek.server.partitions import append_queue, append_rules
from odradek.server.partitions import batch_validation as batch_checks
from odradek.server.partitions.append_result import AppendResult
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.runtime.thread_pools import ThreadPools
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.log.flushing import PendingFlush
from odradek.storage.log.log import Log
from odradek.storage.segments import segment as segments

from compat_tests.wire import ConnectionClosed, WireClient
from tests.server.harness.data_path import DEADLINE_S, PRODUCE_VERSION, DataPath, batch_of, values_of, wait_until

pytestmark = pytest.mark.usefixtures("sockets")

LARGE = b"l" * batch_checks.RECOMPRESSED_AT_ONCE_BYTES


@pytest.fixture
def path() -> Iterator[DataPath]:
    with odradek.Broker() as broker:
        found = DataPath(broker)
        yield found
        found.close()


class Gate:
    """Blocks threads until the gate is opened; afterwards they pass."""

    def __init__(self) -> None:
        self.entered = 0
        self._open = threading.Event()

    def __call__(self) -> None:
        self.entered += 1
        assert self._open.wait(DEADLINE_S), "nobody opened the gate"

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A gate before each check of a queued batch."""
    gate, check = Gate(), batch_checks.check_batch

    def gated(*arguments: Any) -> Any:
        gate()
        return check(*arguments)

    monkeypatch.setattr(append_queue, "check_batch", gated)
    yield gate
    gate.open()


@pytest.fixture
def syncing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A gate before each flush of a topic to the disk."""
    gate, run = Gate(), PendingFlush.run

    def gated(flush: PendingFlush) -> None:
        if "topic-" in flush._directory.path:
            gate()
        run(flush)

    monkeypatch.setattr(PendingFlush, "run", gated)
    yield gate
    gate.open()


class Producer:
    """A separate connection with one Produce in flight."""

    def __init__(self, path: DataPath, topic: str, value: bytes, *, acks: int = 1, **options: Any) -> None:
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch_of(value, **options))])
        self._request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data])
        self._client = WireClient(path.broker.bootstrap_servers)
        self._number = self._client.send(self._request, PRODUCE_VERSION)

    def respond(self) -> Any:
        with self._client:
            response = self._client.receive(self._request, PRODUCE_VERSION, self._number)
        return response.responses[0].partition_responses[0]


def set_codec(path: DataPath, topic: str, codec: str) -> None:
    change = AlterConfigsResource(2, topic, [AlterableConfig("compression.type", 0, codec)])
    request = IncrementalAlterConfigsRequest(resources=[change])
    assert path.client.call(request, 1).responses[0].error_code == 0


@pytest.mark.parametrize("acks", [1, -1])
def test_decompressed_batch_delays_only_later_batches_of_its_partition(
    path: DataPath, opening: Gate, acks: int
) -> None:
    topic, other = path.topic(compression_type="zstd"), path.topic()
    first = Producer(path, topic, LARGE, acks=acks)
    wait_until(lambda: opening.entered == 1)
    assert path.produce(other, batch_of(b"v")).error_code == 0, "another partition takes what comes"
    second = Producer(path, topic, b"small", acks=acks)
    wait_until(lambda: opening.entered == 2)
    assert path.hosted(topic).log_end_offset == 0
    opening.open()
    assert [(one.error_code, one.base_offset) for one in (first.respond(), second.respond())] == [(0, 0), (0, 1)]
    assert values_of(path.fetch(topic)) == [LARGE, b"small"]
    assert path.produce(topic, batch_of(b"third")).base_offset == 2


def test_the_order_holds_when_the_topic_asks_for_nothing_any_more(path: DataPath, opening: Gate) -> None:
    topic = path.topic(compression_type="gzip")
    first = Producer(path, topic, LARGE)
    wait_until(lambda: opening.entered == 1)
    set_codec(path, topic, "producer")
    second = Producer(path, topic, b"plain")
    wait_until(lambda: opening.entered == 2)
    opening.open()
    assert (first.respond().base_offset, second.respond().base_offset) == (0, 1)
    wait_until(lambda: path.hosted(topic).queue is None)
    assert path.produce(topic, batch_of(b"third")).base_offset == 2
    assert opening.entered == 2, "the third went straight to the log"


def test_a_small_compressed_batch_may_be_large_inside_and_is_not_opened_by_the_loop(
    path: DataPath, opening: Gate
) -> None:
    topic = path.topic(compression_type="uncompressed", max_message_bytes="10000")
    producer = Producer(path, topic, bytes(100_000), compression=Compression.ZSTD)
    wait_until(lambda: opening.entered == 1)
    opening.open()
    assert producer.respond().error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert path.hosted(topic).log_end_offset == 0


def test_a_topic_that_is_deleted_while_its_batch_is_opened_gets_nothing(path: DataPath, opening: Gate) -> None:
    topic = path.topic(compression_type="lz4")
    producer = Producer(path, topic, LARGE)
    wait_until(lambda: opening.entered == 1)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic)], timeout_ms=10_000)
    assert path.client.call(request, 6).responses[0].error_code == 0
    opening.open()
    assert producer.respond().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_without_acks_a_refusal_ends_the_connection_once_the_batch_is_opened(path: DataPath, opening: Gate) -> None:
    topic = path.topic(compression_type="uncompressed", max_message_bytes="10000")
    producer = Producer(path, topic, bytes(100_000), acks=0, compression=Compression.ZSTD)
    wait_until(lambda: opening.entered == 1)
    opening.open()
    with pytest.raises(ConnectionClosed):
        producer.respond()


@pytest.mark.parametrize("acks", [1, -1])
def test_flush_delays_only_requests_that_wait_for_it(path: DataPath, syncing: Gate, acks: int) -> None:
    topic, other = path.topic(flush_messages="1"), path.topic()
    first = Producer(path, topic, b"first", acks=acks)
    wait_until(lambda: syncing.entered == 1)
    assert path.produce(other, batch_of(b"v")).error_code == 0
    later = [Producer(path, topic, b"later", acks=acks) for _ in range(5)]
    wait_until(lambda: path.hosted(topic).log_end_offset == 6)
    assert path.hosted(topic).high_watermark == 0, "what the disk does not have is not seen"
    assert path.fetch(topic).records in (b"", None)
    syncing.open()
    assert first.respond().error_code == 0
    assert {producer.respond().error_code for producer in later} == {0}
    assert syncing.entered == 2, "those who came during the first flush shared the second"
    hosted = path.hosted(topic)
    assert (hosted.high_watermark, hosted.log.recovery_point) == (6, 6)


def test_flush_messages_counts_the_records_that_the_disk_does_not_have(path: DataPath, syncing: Gate) -> None:
    topic = path.topic(flush_messages="2")
    assert path.produce(topic, batch_of(b"one")).base_offset == 0
    assert path.hosted(topic).high_watermark == 1, "one is less than two"
    second = Producer(path, topic, b"two")
    wait_until(lambda: syncing.entered == 1)
    assert path.hosted(topic).high_watermark == 1
    syncing.open()
    assert second.respond().base_offset == 1
    assert path.hosted(topic).high_watermark == 2


def test_failed_flush_takes_directory_offline_and_returns_an_error(
    path: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(flush: PendingFlush) -> None:
        raise LogDirectoryFailure(flush._directory.log_directory, "flushing", OSError(5, "the disk is gone"))

    topic = path.topic(flush_messages="1")
    hosted = path.hosted(topic)
    monkeypatch.setattr(PendingFlush, "run", fail)
    assert path.produce(topic, batch_of(b"v")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert hosted.offline


def test_records_that_were_cut_off_during_a_flush_do_not_vouch_for_those_in_their_place(path: DataPath) -> None:
    topic = path.topic()
    for _ in range(4):
        path.produce(topic, batch_of(b"v"))
    log = path.hosted(topic).log
    pending = log.prepare_flush()
    assert pending is not None
    log.truncate_to(2, 0)
    pending.run()
    log.flushed(pending, 0)
    assert log.recovery_point == 0


def pools_of(path: DataPath) -> ThreadPools:
    assert path.broker.server is not None
    return path.broker.server.node.pools


def test_slow_disks_do_not_hold_up_the_check_of_batches(path: DataPath, syncing: Gate) -> None:
    disk, other = pools_of(path).disk, path.topic(compression_type="gzip")
    flushing = [Producer(path, path.topic(flush_messages="1"), b"v") for _ in range(disk.size + 2)]
    wait_until(lambda: (disk.active, disk.queued) == (disk.size, 2))
    checked = pools_of(path).cpu.completed
    assert path.produce(other, batch_of(LARGE)).error_code == 0
    assert pools_of(path).cpu.completed == checked + 1, "a thread checked the batch"
    assert disk.active == disk.size, "all flushes still wait for the disk"
    syncing.open()
    assert {producer.respond().error_code for producer in flushing} == {0}


def test_checks_of_batches_do_not_hold_up_flushes(path: DataPath, opening: Gate) -> None:
    cpu, other = pools_of(path).cpu, path.topic(flush_messages="1")
    checked = [Producer(path, path.topic(compression_type="gzip"), LARGE) for _ in range(cpu.size + 2)]
    wait_until(lambda: (cpu.active, cpu.queued) == (cpu.size, 2))
    flushed = pools_of(path).disk.completed
    assert path.produce(other, batch_of(b"v")).error_code == 0
    assert path.hosted(other).log.recovery_point == 1
    assert pools_of(path).disk.completed > flushed, "a thread waited for the disk"
    assert (cpu.active, cpu.queued) == (cpu.size, 2)
    opening.open()
    assert {producer.respond().error_code for producer in checked} == {0}


def test_a_stopped_broker_leaves_no_thread_of_its_pools() -> None:
    with odradek.Broker() as broker:
        path = DataPath(broker)
        pools, topic = pools_of(path), path.topic(compression_type="gzip", flush_messages="1")
        assert path.produce(topic, batch_of(LARGE)).error_code == 0
        path.close()
        threads = {thread for pool in pools for thread in pool._threads}
        assert len(threads) >= 2
    assert not any(thread.is_alive() for thread in threads)


MEGABYTE = 1 << 20
HUGE = bytes(range(256)) * (10 * MEGABYTE // 256)


def test_large_batch_is_checked_on_a_thread_and_written_in_parts(
    path: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, checking, sizes = path.topic(max_message_bytes="20000000"), set(), []
    check_crc, write = batch_checks.batch.check_crc, segments.write_fully

    def check(buffer: Any, *arguments: Any) -> None:
        if len(buffer) > MEGABYTE:
            checking.add(threading.current_thread().name.rpartition("_")[0])
        check_crc(buffer, *arguments)

    def record(fd: int, buffer: Any, position: int) -> None:
        sizes.append(len(buffer))
        write(fd, buffer, position)

    monkeypatch.setattr(batch_checks.batch, "check_crc", check)
    monkeypatch.setattr(segments, "write_fully", record)
    assert [path.produce(topic, batch_of(value)).base_offset for value in (b"first", HUGE, b"last")] == [0, 1, 2]
    assert checking == {"odradek-cpu"}
    assert len(sizes) == 11
    assert max(sizes) == segments.PART_BYTES
    assert values_of(path.fetch(topic, max_bytes=len(HUGE) * 2)) == [b"first", HUGE, b"last"]


def test_another_append_amid_a_large_batch_takes_the_offset_before_it(
    path: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, parts = path.topic(max_message_bytes="20000000"), []
    hosted, write_ahead = path.hosted(topic), Log.write_ahead

    def interrupted(log: Log, buffer: Any, *arguments: Any) -> bool:
        is_whole = write_ahead(log, buffer, *arguments)
        parts.append(is_whole)
        if len(parts) == 4:
            hosted.append_own(batch_of(b"own"), 0)
        return is_whole

    monkeypatch.setattr(Log, "write_ahead", interrupted)
    assert path.produce(topic, batch_of(HUGE)).base_offset == 1
    assert len(parts) == 4 + 10
    assert values_of(path.fetch(topic, max_bytes=len(HUGE) * 2)) == [b"own", HUGE]


def test_large_batch_that_is_rejected_when_its_turn_comes_leaves_no_bytes(
    path: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = path.topic(max_message_bytes="20000000")
    monkeypatch.setattr(HostedPartition, "append_opened", lambda *_: AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert path.produce(topic, batch_of(HUGE)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    segment = path.hosted(topic).log.active
    assert (segment.size, Path(segment.path).stat().st_size) == (0, 0)


def test_large_batch_counts_as_received_until_it_is_written(path: DataPath, opening: Gate) -> None:
    assert path.broker.server is not None
    receiving, topic = path.broker.server.network.listeners.receiving, path.topic(max_message_bytes="20000000")
    producer = Producer(path, topic, HUGE)
    wait_until(lambda: opening.entered == 1)
    wait_until(lambda: receiving.taken > len(HUGE))
    opening.open()
    assert producer.respond().base_offset == 0
    assert receiving.taken == 0


def test_no_large_batch_fits_into_the_buffer_that_connections_share() -> None:
    assert append_rules.LARGE_BATCH_BYTES >= READ_BUFFER_BYTES


@pytest.mark.parametrize(
    ("is_offline", "is_leader", "error"),
    [
        (True, True, ErrorCode.KAFKA_STORAGE_ERROR),
        (True, False, ErrorCode.KAFKA_STORAGE_ERROR),
        (False, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (False, True, None),
    ],
)
def test_waiting_appends_fail_with_the_reason(
    path: DataPath, is_offline: bool, is_leader: bool, error: ErrorCode | None
) -> None:
    hosted = path.hosted(path.topic())
    errors: list[int] = []
    hosted.when_committed(hosted.log_end_offset + 1, errors.append)
    hosted.offline, hosted.role.is_leader = is_offline, is_leader
    hosted.wake_all()
    assert errors == ([] if error is None else [error])
