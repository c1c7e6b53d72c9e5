"""A full disk: the broker stores nothing new, and serves everything that is stored."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient
from tests.hostile.floods import awaiting, lines_with
from tests.hostile.full_disk import fill, make_room, small_disk
from tests.hostile.requests import create, produce

pytestmark = pytest.mark.usefixtures("processes")

if os.geteuid() != 0:  # pragma: no cover - a file system is mounted
    pytest.skip("mounting takes root", allow_module_level=True)

RECORD = b"x" * 100
#: A group of one of its topic's last partitions, so that the partitions before it use up the space.
GROUP = "a"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as path:
        yield path


@pytest.fixture
def broker(tmp_path: Path, disk: Path) -> Iterator[OdradekProcess]:
    process = OdradekProcess(tmp_path / "broker", {"log.dirs": str(disk / "data")})
    process.start()
    yield process
    process.kill()


def coordinator(client: WireClient) -> ErrorCode:
    return ErrorCode(client.call(FindCoordinatorRequest(key=GROUP, key_type=0), 3).error_code)


def commit(client: WireClient) -> ErrorCode:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = OffsetCommitRequest(
        group_id=GROUP, topics=[OffsetCommitRequestTopic(name="before", partitions=[partition])]
    )
    return ErrorCode(client.call(request, 8).topics[0].partitions[0].error_code)


def end(client: WireClient, topic: str) -> tuple[ErrorCode, int]:
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    found = client.call(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7).topics[0].partitions[0]
    return ErrorCode(found.error_code), found.offset


def until(found: Callable[[], Any], wanted: object) -> None:
    for _ in awaiting():
        if found() == wanted:
            return


@pytest.mark.parametrize("leave", [0, 320 << 10], ids=["no-room", "room-for-some-partitions"])
def test_first_group_on_a_full_disk_waits_for_room_and_then_works(
    broker: OdradekProcess, disk: Path, leave: int
) -> None:
    with WireClient(broker.bootstrap) as client:
        create(client, "before")
        produce(client, "before", RECORD)
        fill(disk, leave=leave)
        assert coordinator(client) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert coordinator(client) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert end(client, "before") == (ErrorCode.NONE, 1)
        (line,) = lines_with(broker.log_file, " (ERROR|CRITICAL) ")
        assert "make room" in line
        make_room(disk)
        until(lambda: coordinator(client), ErrorCode.NONE)
        until(lambda: commit(client), ErrorCode.NONE)
        produce(client, "before", RECORD)
    assert broker.stop() == 0


@pytest.mark.parametrize("leave", [0, 24 << 10], ids=["no-room", "room-to-delete"])
def test_requests_that_the_metadata_log_has_no_room_for_are_refused_and_the_broker_goes_on(
    broker: OdradekProcess, disk: Path, leave: int
) -> None:
    def created(name: str) -> int:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        response = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert not response.topics[0].error_code or "make room" in (response.topics[0].error_message or "")
        return int(response.topics[0].error_code)

    def deleted(name: str) -> int:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        return int(client.call(request, 6).responses[0].error_code)

    with WireClient(broker.bootstrap) as client:
        create(client, "before")
        create(client, "other")
        produce(client, "before", RECORD)
        fill(disk, leave=leave)
        assert {created(f"new-{number}") for number in range(20)} == {ErrorCode.KAFKA_STORAGE_ERROR}
        assert deleted("other") == (ErrorCode.NONE if leave else ErrorCode.KAFKA_STORAGE_ERROR)
        assert end(client, "before") == (ErrorCode.NONE, 1)
        assert end(client, "new-1")[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(lines_with(broker.log_file, "CreateTopics is rejected.*make room")) == 1
        make_room(disk)
        until(lambda: created("new-1"), ErrorCode.NONE)
        produce(client, "new-1", RECORD)
        produce(client, "before", RECORD)
    assert broker.stop() == 0
    assert not lines_with(broker.log_file, "offline|Traceback|CRITICAL")


def test_new_partition_without_room_answers_storage_error_until_there_is_room(
    broker: OdradekProcess, disk: Path
) -> None:
    with WireClient(broker.bootstrap) as client:
        create(client, "before")
        fill(disk, leave=128 << 10)
        topic = CreatableTopic(name="new", num_partitions=3, replication_factor=1)
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert end(client, "new")[0] is ErrorCode.KAFKA_STORAGE_ERROR
        assert not list((disk / "data").glob("new-*"))
        produce(client, "before", RECORD)
        assert end(client, "before") == (ErrorCode.NONE, 1)
        (line,) = lines_with(broker.log_file, "new-")
        assert "new-0 cannot be created yet; creation is retried" in line
        assert "make room" in line
        make_room(disk)
        until(lambda: end(client, "new"), (ErrorCode.NONE, 0))
        produce(client, "new", RECORD)
    assert not lines_with(broker.log_file, "offline|Traceback")


@pytest.mark.parametrize("leave", [0, 8192])
@pytest.mark.parametrize("is_formatted", [False, True], ids=["new", "after-a-kill"])
def test_start_on_a_full_disk_serves_or_says_what_to_do(
    tmp_path: Path, disk: Path, leave: int, *, is_formatted: bool
) -> None:
    process = OdradekProcess(tmp_path / "broker", {"log.dirs": str(disk / "data")})
    if is_formatted:
        process.start()
        with WireClient(process.bootstrap) as client:
            create(client, "before")
            produce(client, "before", RECORD)
        process.kill()
    fill(disk, leave=leave)
    ended = subprocess.Popen(
        [sys.executable, "-m", "odradek", "start", "--port", "0", "--override", f"log.dirs={disk}/data"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert ended.stdout is not None
    is_served = bool(ended.stdout.readline())
    if is_served:
        ended.terminate()
    _, errors = ended.communicate(timeout=30)
    assert "Traceback" not in errors
    if not is_served:
        assert ended.returncode == 1
        assert f"{disk}/data" in errors.splitlines()[-1]
        assert "make room" in errors.splitlines()[-1]
    make_room(disk)
    try:
        process.start()
        with WireClient(process.bootstrap) as client:
            if not is_formatted:
                create(client, "before")
            assert end(client, "before") == (ErrorCode.NONE, int(is_formatted))
    finally:
        process.kill()
