"""A single node that serves while threads still open its logs."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import odradek
import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.server.partitions import replica_loading
from odradek.server.partitions.replica_loading import Found, Looks, Opened, ReplicaLoading
from odradek.storage.directory import CLEAN_SHUTDOWN_FILE
from odradek.storage.files.checkpoints import HIGH_WATERMARKS, find_offsets, write_offsets
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.log.config import LogConfig

from tests.server.harness.data_path import DEADLINE_S, DataPath, batch_of, on_loop, values_of, wait_until

pytestmark = pytest.mark.usefixtures("sockets")

PARTITIONS = 8
TOPIC = "grown"
_TOPIC_RESOURCE = 2


class Gate:
    """Holds up the threads that open certain replicas, until it is opened."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.holds: Callable[[Found], bool] = lambda found: False
        #: In the order in which they were opened.
        self.passed: list[int] = []
        self.lacks_descriptors = False


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made, opens, looks = Gate(), ReplicaLoading._open, replica_loading._look_at

    def looked_at(found: list[Found], topic_ids: dict[str, bytes]) -> Looks:
        if any(map(made.holds, found)):
            assert made.is_open.wait(DEADLINE_S)
        if made.lacks_descriptors:
            return Looks([None] * len(found), 0.0)
        seen = looks(found, topic_ids)
        made.passed += [one.key[1] for one, opened in zip(found, seen.seen, strict=True) if opened is not None]
        return seen

    def held(self: ReplicaLoading, found: Found, config: LogConfig | None) -> Opened:
        if made.holds(found):
            assert made.is_open.wait(DEADLINE_S)
        made.passed.append(found.key[1])
        if made.lacks_descriptors:
            raise LogDirectoryFailure(found.directory.path, "opening a log", OSError(errno.EMFILE, "too many"))
        return opens(self, found, config)

    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0)
    monkeypatch.setattr(replica_loading, "OPENED_AT_A_TIME", 1)
    monkeypatch.setattr(ReplicaLoading, "_open", held)
    monkeypatch.setattr(replica_loading, "_look_at", looked_at)
    yield made
    made.is_open.set()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Returns the data directory of a topic with a record in each partition."""
    with odradek.Broker(data_dir=tmp_path) as broker:
        path = DataPath(broker)
        create(path)
        for index in range(PARTITIONS):
            assert path.produce(TOPIC, batch_of(b"first"), index=index).base_offset == 0
        path.close()
    return tmp_path


def create(path: DataPath, topic: str = TOPIC) -> None:
    request = CreateTopicsRequest([CreatableTopic(topic, PARTITIONS, 1)], 10_000)
    assert path.client.call(request, 7).topics[0].error_code == 0


def error_of(path: DataPath, index: int) -> ErrorCode:
    return ErrorCode(path.produce(TOPIC, batch_of(b"second"), index=index).error_code)


def is_open(broker: odradek.Broker, index: int, topic: str = TOPIC) -> bool:
    return broker.server.partitions.hosted.get((topic, index)) is not None


def are_loaded(broker: odradek.Broker) -> bool:
    return broker.server.partitions.hosted.are_loaded


def test_leader_whose_log_is_open_serves_while_another_is_opened(data: Path, gate: Gate) -> None:
    gate.holds = lambda found: found.key[1] == 3
    with odradek.Broker(data_dir=data) as broker:
        path = DataPath(broker)
        others = [index for index in range(PARTITIONS) if index != 3]
        wait_until(lambda: all(is_open(broker, index) for index in others))
        assert {error_of(path, index) for index in others} == {ErrorCode.NONE}
        assert error_of(path, 3) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert path.fetch(TOPIC, index=3).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not are_loaded(broker)
        gate.is_open.set()
        wait_until(lambda: are_loaded(broker))
        assert error_of(path, 3) is ErrorCode.NONE
        assert values_of(path.fetch(TOPIC, index=3)) == [b"first", b"second"]
        path.close()


def test_replica_that_a_request_has_named_is_opened_before_others(data: Path, gate: Gate) -> None:
    gate.holds = lambda found: True
    with odradek.Broker(data_dir=data) as broker:
        path = DataPath(broker)
        last = list(broker.server.partitions._loading._waiting)[-1][1]  # type: ignore[union-attr]
        assert error_of(path, last) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        gate.is_open.set()
        wait_until(lambda: are_loaded(broker))
        path.close()
    assert last in gate.passed[:3]


def test_topic_that_is_deleted_before_its_replicas_are_open_is_removed(data: Path, gate: Gate) -> None:
    gate.holds = lambda found: True
    with odradek.Broker(data_dir=data) as broker:
        path = DataPath(broker)
        asked = DeleteTopicsRequest([DeleteTopicState(name=TOPIC)], timeout_ms=10_000)
        assert path.client.call(asked, 6).responses[0].error_code == 0
        create(path)  # another one of the same name
        gate.is_open.set()
        wait_until(lambda: are_loaded(broker))
        for index in range(PARTITIONS):
            assert path.produce(TOPIC, batch_of(b"new"), index=index).base_offset == 0
            assert values_of(path.fetch(TOPIC, index=index)) == [b"new"]
        assert not any(hosted.log.damage for hosted in broker.server.partitions.hosted.values())
        path.close()


def test_configuration_that_changes_before_a_log_is_open_takes_effect(data: Path, gate: Gate) -> None:
    gate.holds = lambda found: True
    with odradek.Broker(data_dir=data) as broker:
        path = DataPath(broker)
        change = AlterableConfig("segment.bytes", 0, "1048588")
        resource = AlterConfigsResource(_TOPIC_RESOURCE, TOPIC, [change])
        response = path.client.call(IncrementalAlterConfigsRequest([resource]), 1)
        assert response.responses[0].error_code == 0
        gate.is_open.set()
        wait_until(lambda: are_loaded(broker))
        assert {path.hosted(TOPIC, index).log.config.segment_bytes for index in range(PARTITIONS)} == {1048588}
        path.close()


def test_stop_before_all_logs_are_open_is_no_clean_one_and_loses_nothing(
    data: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = find_offsets(str(data), HIGH_WATERMARKS).offsets
    with monkeypatch.context() as patched:
        patched.setattr(replica_loading, "OPENED_AT_FIRST", 1)
        patched.setattr(ReplicaLoading, "_next", lambda self: [])
        with odradek.Broker(data_dir=data) as broker:
            assert not are_loaded(broker)
            path = DataPath(broker)
            on_loop(path, broker.server.replicas.maintenance.write_checkpoints)
            on_loop(path, broker.server.replicas.maintenance.write_high_watermarks)
            path.close()
    assert not (data / CLEAN_SHUTDOWN_FILE).exists()
    assert find_offsets(str(data), HIGH_WATERMARKS).offsets == before
    with odradek.Broker(data_dir=data) as broker:
        path = DataPath(broker)
        wait_until(lambda: are_loaded(broker))
        for index in range(PARTITIONS):
            assert path.produce(TOPIC, batch_of(b"second"), index=index).base_offset == 1
        path.close()


def test_new_topic_is_not_measured_by_checkpoints_of_an_old_one(data: Path, gate: Gate) -> None:
    gate.holds = lambda found: True
    write_offsets(str(data), HIGH_WATERMARKS, find_offsets(str(data), HIGH_WATERMARKS).offsets | {("later", 0): 7})
    with odradek.Broker(data_dir=data) as broker:
        path = DataPath(broker)
        create(path, "later")
        assert path.produce("later", batch_of(b"a")).base_offset == 0
        assert not path.hosted("later").log.damage
        gate.is_open.set()
        wait_until(lambda: are_loaded(broker))
        path.close()


def test_folder_that_is_not_of_this_broker_is_put_aside(data: Path, gate: Gate) -> None:
    (data / "unknown-0").mkdir()
    with odradek.Broker(data_dir=data) as broker:
        wait_until(lambda: are_loaded(broker))
        assert not is_open(broker, 0, "unknown")
    assert not (data / "unknown-0").exists()
    assert list(data.glob("unknown-0.*-stray"))


def test_a_shortage_of_descriptors_is_waited_for(data: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_loading, "SHORTAGE_S", 0.1)
    gate.lacks_descriptors, began_s = True, time.monotonic()
    with odradek.Broker(data_dir=data) as broker:
        path = DataPath(broker)
        wait_until(lambda: len(gate.passed) >= 6, "three tries of two threads")
        assert time.monotonic() - began_s >= 2 * replica_loading.SHORTAGE_S, "a try does not follow the other at once"
        assert error_of(path, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        gate.lacks_descriptors = False
        wait_until(lambda: error_of(path, 0) == ErrorCode.NONE, "its leader serves")
        path.close()
