"""The partitions hosted by a broker: their directories, restarts, crashes, failing disks and maintenance."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.storage import directory
from odradek.storage.files.clean_replicas import CLEAN_REPLICAS_FILE, read_clean_replicas
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.files.partition_metadata import read_topic_id, write_topic_id
from odradek.storage.log.log import Log

from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient
from tests.server.harness.data_path import DataPath, batch_of, fetch_request, on_loop, values_of, wait_until

pytestmark = pytest.mark.usefixtures("sockets")

Start = Callable[..., DataPath]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts brokers on one data directory, or on those that `log_dirs` names in it; all end with the test."""
    running: list[odradek.Broker] = []

    def begin(*log_dirs: str, **config: str) -> DataPath:
        properties = {key.replace("_", "."): value for key, value in config.items()}
        if log_dirs:
            properties["log.dirs"] = ",".join(str(tmp_path / name) for name in log_dirs)
        broker = odradek.Broker(data_dir=None if log_dirs else tmp_path / "data", config=properties)
        broker.__enter__()
        running.append(broker)
        path = DataPath(broker)
        path.end = lambda: (path.close(), running.remove(broker), broker.__exit__(None, None, None))  # type: ignore[attr-defined]
        return path

    yield begin
    for broker in running:
        broker.__exit__(None, None, None)


def delete_topic(path: DataPath, topic: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic)], timeout_ms=10_000)
    assert path.client.call(request, 6).responses[0].error_code == 0


# ---- restarts


def test_a_restart_finds_everything_where_it_was(start: Start) -> None:
    path = start()
    topic = path.topic(partitions=3)
    for index in range(3):
        for number in range(index + 1):
            path.produce(topic, batch_of(b"%d" % number), index=index)
    path.end()  # type: ignore[attr-defined]
    again = start()
    for index in range(3):
        hosted = again.hosted(topic, index)
        assert (hosted.high_watermark, hosted.log.recovered_bytes) == (index + 1, 0)
        assert values_of(again.fetch(topic, index=index)) == [b"%d" % number for number in range(index + 1)]
    assert again.produce(topic, batch_of(b"more"), index=2).base_offset == 3


def test_leader_epoch_continues_after_a_clean_restart(start: Start) -> None:
    path = start()
    topic = path.topic()
    path.produce(topic, batch_of(b"a"))
    first = path.hosted(topic).leader_epoch
    path.end()  # type: ignore[attr-defined]
    again = start()
    assert again.hosted(topic).leader_epoch == first
    again.produce(topic, batch_of(b"b"))
    assert again.hosted(topic).log.epoch_end_offset(first) == (first, 2)


@pytest.mark.usefixtures("processes")
def test_acknowledged_records_survive_kill(tmp_path: Path) -> None:
    with OdradekProcess(tmp_path) as process:
        with WireClient(process.bootstrap) as client:
            path = DataPath.__new__(DataPath)
            path.client = client
            topic = path.topic()
            for number in range(50):
                assert path.produce(topic, batch_of(b"%d" % number), acks=-1).base_offset == number
        process.kill()
        process.start()
        with WireClient(process.bootstrap) as client:
            path.client = client
            assert values_of(path.fetch(topic)) == [b"%d" % number for number in range(50)]


# ---- directories


def test_new_replicas_go_to_the_emptiest_directory_and_are_reported(start: Start) -> None:
    path = start("a", "b", "c")
    topic = path.topic(partitions=9)
    hosted = [path.hosted(topic, index) for index in range(9)]
    ids = [one.directory.directory_id for one in hosted]
    assert {ids.count(directory) for directory in ids} == {3}
    image = path.broker.server.node.metadata.image
    wait_until(
        lambda: (
            [
                path.broker.server.node.metadata.image.partition(topic, index).directories[0]
                for index in range(9)  # type: ignore[union-attr]
            ]
            == ids
        ),
        f"{image.partition(topic, 0)}",
    )


def test_replicas_stay_in_their_directories_over_a_restart(start: Start) -> None:
    path = start("a", "b")
    topic = path.topic(partitions=4)
    before = [path.hosted(topic, index).log.path for index in range(4)]
    path.end()  # type: ignore[attr-defined]
    again = start("a", "b")
    assert [again.hosted(topic, index).log.path for index in range(4)] == before


def test_a_deleted_topic_leaves_the_disk(start: Start) -> None:
    path = start(log_segment_delete_delay_ms="0")
    topic = path.topic(partitions=2)
    paths = [Path(path.hosted(topic, index).log.path) for index in range(2)]
    delete_topic(path, topic)
    assert not any(one.exists() for one in paths)
    wait_until(lambda: not list(paths[0].parent.glob("*-delete")), "the files stay")


def test_files_of_a_deleted_topic_that_a_restart_finds_go_too(start: Start) -> None:
    path = start(log_segment_delete_delay_ms="600000")
    topic = path.topic()
    parent = Path(path.hosted(topic).log.path).parent
    delete_topic(path, topic)
    assert len(list(parent.glob("*-delete"))) == 1
    path.end()  # type: ignore[attr-defined]
    start()
    wait_until(lambda: not list(parent.glob("*-delete")))


def test_directories_absent_from_metadata_are_renamed_stray(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    path = start()
    topic = path.topic()
    path.produce(topic, batch_of(b"v"))
    directory = Path(path.hosted(topic).log.path)
    path.end()  # type: ignore[attr-defined]
    foreign = directory.parent / "foreign-0"
    foreign.mkdir()
    (foreign / "00000000000000000000.log").write_bytes(b"somebody's")
    write_topic_id(str(directory), b"another topic id")
    again = start()
    strays = sorted(one.name.partition(".")[0] for one in directory.parent.glob("*-stray"))
    assert strays == sorted([f"{topic}-0", "foreign-0"])
    assert caplog.text.count("is no longer assigned to this broker") == 2
    assert again.hosted(topic).log_end_offset == 0
    assert read_topic_id(str(directory)) == again.topic_id(topic)


def test_a_failing_directory_takes_its_partitions_offline_and_no_others(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = start("a", "b")
    topic = path.topic(partitions=2)
    bad, good = path.hosted(topic, 0), path.hosted(topic, 1)
    assert bad.directory is not good.directory
    path.produce(topic, batch_of(b"v"), index=0)
    other = path.another_client()
    waiting = fetch_request(topic, 1, max_wait_ms=20_000)
    number = other.client.send(waiting, 12)
    wait_until(lambda: bad.watchers)

    def fail(self: Log, *_: Any) -> None:
        raise LogDirectoryFailure(self.log_directory, "appending", OSError(28, "No space left on device"))

    with monkeypatch.context() as patched:
        patched.setattr(Log, "append", fail)
        assert path.produce(topic, batch_of(b"v"), index=0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    reported = other.client.receive(waiting, 12, number).responses[0].partitions[0]
    assert reported.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    for response in (
        path.produce(topic, batch_of(b"v"), index=0),
        path.fetch(topic, index=0),
        path.list_offset(topic, -1, index=0),
    ):
        assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert path.fetch(topic, index=0, version=5).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert path.produce(topic, batch_of(b"v"), index=1).error_code == 0
    assert not path.broker.server.failed.done()


def test_without_any_directory_left_the_broker_says_that_it_cannot_go_on(start: Start) -> None:
    path = start()
    topic = path.topic()
    hosted, server = path.hosted(topic), path.broker.server
    failure = LogDirectoryFailure(hosted.directory.path, "appending", OSError(5, "Input/output error"))
    on_loop(path, lambda: hosted.on_failure(failure))
    assert server.failed.result() is failure


# ---- maintenance


def filled(path: DataPath, batches: int = 8, **configs: str) -> str:
    topic = path.topic(segment_bytes="1048576", **configs)
    for number in range(batches):
        path.produce(topic, batch_of(bytes([number]) * 400_000, key=b"%d" % (number % 2)))
    assert len(path.hosted(topic).log.segments) == batches // 2
    return topic


def test_old_segments_go_by_size_and_then_their_files(start: Start) -> None:
    path = start(log_segment_delete_delay_ms="0")
    topic = filled(path, retention_bytes="1600000")
    hosted, maintenance = path.hosted(topic), path.broker.server.replicas.maintenance
    on_loop(path, maintenance.delete_old_segments)
    assert hosted.log_start_offset == 4
    assert path.list_offset(topic, -2).offset == 4
    on_loop(path, maintenance.remove_files)
    assert not list(Path(hosted.log.path).glob("*.deleted"))


def test_loop_neither_renames_nor_unlinks_files_of_old_segments(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    path = start(log_segment_delete_delay_ms="0")
    topic = filled(path, retention_bytes="1600000")
    changes: list[tuple[str, bool]] = []

    def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(name: Any, *rest: Any) -> Any:
            if f"{topic}-0/" in str(name):
                changes.append((function.__name__, asyncio._get_running_loop() is None))
            return function(name, *rest)

        return call

    monkeypatch.setattr(os, "rename", recorded(os.rename))
    monkeypatch.setattr(os, "unlink", recorded(os.unlink))
    on_loop(path, path.broker.server.replicas.maintenance.delete_old_segments)
    on_loop(path, path.broker.server.replicas.maintenance.remove_files)
    assert path.hosted(topic).log_start_offset == 4 and not path.hosted(topic).log.has_removed_segments
    assert {name for name, _ in changes} == {"rename", "unlink"}
    assert all(is_on_thread for _, is_on_thread in changes), changes


def test_reader_of_deleted_offsets_gets_offset_out_of_range(start: Start) -> None:
    path = start()
    topic = filled(path, retention_bytes="1700000")
    request = fetch_request(topic, 0, max_wait_ms=20_000, min_bytes=100_000_000)
    number = path.client.send(request, 12)
    wait_until(lambda: path.hosted(topic).watchers)
    on_loop(path, path.broker.server.replicas.maintenance.delete_old_segments)
    response = path.client.receive(request, 12, number).responses[0].partitions[0]
    assert response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_rolled_segments_are_flushed_and_checkpoints_say_so(start: Start, tmp_path: Path) -> None:
    path = start()
    topic = filled(path)
    hosted, maintenance = path.hosted(topic), path.broker.server.replicas.maintenance
    on_loop(path, maintenance.flush_what_is_due)
    assert hosted.log.recovery_point == 6, "all but the active segment"
    on_loop(path, maintenance.write_checkpoints)
    on_loop(path, maintenance.write_high_watermarks)
    text = (tmp_path / "data" / "recovery-point-offset-checkpoint").read_text()
    assert f"{topic} 0 6" in text.splitlines()
    assert f"{topic} 0 8" in (tmp_path / "data" / "replication-offset-checkpoint").read_text().splitlines()


def test_replica_that_has_not_grown_for_an_interval_is_noted(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "QUIET_NS", -1_000_000_000)  # as if the files were old
    path = start()
    topic, busy = path.topic(), path.topic()
    path.produce(topic, batch_of(b"v"))
    note = path.broker.server.replicas.maintenance.note_idle_replicas
    on_loop(path, note)
    path.produce(busy, batch_of(b"v"))
    on_loop(path, note)
    noted = read_clean_replicas(str(tmp_path / "data"))
    assert (topic, 0) in noted
    assert (busy, 0) not in noted
    found = noted[topic, 0]
    assert found.topic_id == path.topic_id(topic)
    assert found.log is not None
    assert found.log.end_offset == 1
    size = (tmp_path / "data" / CLEAN_REPLICAS_FILE).stat().st_size
    on_loop(path, note)
    on_loop(path, note)
    assert (busy, 0) in read_clean_replicas(str(tmp_path / "data"))
    grown = (tmp_path / "data" / CLEAN_REPLICAS_FILE).stat().st_size
    on_loop(path, note)
    assert (tmp_path / "data" / CLEAN_REPLICAS_FILE).stat().st_size == grown > size, "each is noted once"


def test_flush_messages_flushes_each_batch_before_the_response(start: Start) -> None:
    path = start()
    topic = path.topic(flush_messages="1")
    for number in range(3):
        path.produce(topic, batch_of(b"v"))
        assert path.hosted(topic).log.recovery_point == number + 1


@pytest.mark.usefixtures("processes")
def test_a_topic_compacted_in_a_process_keeps_the_last_of_each_key(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.server.replicas.compaction_process.SMALL_JOB_BYTES", 0)
    assert_compaction_keeps_the_last_of_each_key(start())


def test_a_topic_compacted_by_a_thread_keeps_the_last_of_each_key(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.server.replicas.compaction_process.SMALL_JOB_BYTES", 1 << 30)
    assert_compaction_keeps_the_last_of_each_key(start())


def assert_compaction_keeps_the_last_of_each_key(path: DataPath) -> None:
    topic = filled(path, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    hosted = path.hosted(topic)
    before = hosted.log.size
    on_loop(path, path.broker.server.replicas.cleaner.clean_one)
    assert hosted.log.size < before
    offset, values = 0, []
    while offset < 8:
        data = path.fetch(topic, offset, max_bytes=10_000_000)
        values += values_of(data)
        offset = hosted.log.read(offset, 10_000_000).next_offset
    # The cleaned segments keep the last record of each key, the active segment keeps all.
    assert [value[0] for value in values if value] == [4, 5, 6, 7]
    checkpoint = Path(hosted.directory.path, "cleaner-offset-checkpoint").read_text()
    assert f"{topic} 0 6" in checkpoint.splitlines()
    assert on_loop(path, path.broker.server.replicas.cleaner.clean_one) is False, "nothing is left to clean"


@pytest.mark.usefixtures("processes")
def test_cleaner_leaves_damaged_log_alone_until_its_damage_is_known(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    path = start()
    topic = filled(path, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    hosted = path.hosted(topic)
    with Path(hosted.log.segments[0].path).open("r+b") as file:
        file.seek(1000)
        file.write(os.urandom(8))
    caplog.set_level(logging.ERROR)
    assert on_loop(path, path.broker.server.replicas.cleaner.clean_one) is False
    assert f"{topic}-0 is not compacted until its damage has been inspected" in caplog.text
    wait_until(lambda: hosted.log.damage)
    assert path.produce(topic, batch_of(b"v")).error_code == 0


def test_producers_that_have_expired_are_forgotten(start: Start) -> None:
    path = start(producer_id_expiration_ms="1")
    topic = path.topic()
    path.produce(topic, batch_of(b"v", producer_id=5, producer_epoch=0, base_sequence=0, timestamp=1000))
    producers = path.hosted(topic).log.producers.by_id
    assert list(producers) == [5]
    on_loop(path, path.broker.server.replicas.maintenance.expire_producers)
    assert not producers
