"""Descriptions of log directories, and moves of replicas between them during writes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.server.endpoints import alter_replica_log_dirs, describe_log_dirs

pytestmark = pytest.mark.usefixtures("sockets")

DEADLINE_S = 60


class Harness:
    """A broker with two log directories. Requests go to its handlers and its controller."""

    def __init__(self, broker: odradek.Broker, directories: list[Path]) -> None:
        self.server = broker.server
        self.directories = [str(directory) for directory in directories]
        self.sent = 0

    async def ask(self, request: Any, version: int) -> Any:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.server.controller.driver.submit(request, version, done.set_result)
        return await done

    async def create(self, name: str = "t", **configs: str) -> None:
        said = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        response = await self.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1, configs=said)]), 4)
        assert response.topics[0].error_code == 0
        # The broker reports a replica's directory to the controller in a later turn.
        await self.until(lambda: self.where(name) == self.known_to_be_in(name))

    def where(self, name: str = "t") -> str:
        return str(self.server.partitions.hosted.get((name, 0)).directory.path)

    def known_to_be_in(self, name: str = "t") -> str | None:
        ids = {directory.directory_id: directory.path for directory in self.server.node.directories}
        return ids.get(self.server.node.metadata.image.partition(name, 0).directory(1))

    def elsewhere(self, name: str = "t") -> str:
        return next(path for path in self.directories if path != self.where(name))

    def move(self, path: str, name: str = "t", index: int = 0) -> ErrorCode:
        request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(name, [index])])])
        return ErrorCode(
            alter_replica_log_dirs.handle(self.server.services, Asked(self.server, request))
            .results[0]
            .partitions[0]
            .error_code
        )

    def described(self, name: str = "t") -> dict[str, tuple[int, bool]]:
        """Returns directory -> (offset lag, is future replica)."""
        request = DescribeLogDirsRequest([DescribableLogDirTopic(name, [0])])
        results = describe_log_dirs.handle(self.server.services, Asked(self.server, request)).results
        shown = {result.log_dir: topic.partitions for result in results for topic in result.topics}
        return {path: (p.offset_lag, p.is_future_key) for path, partitions in shown.items() for p in partitions}

    def send(self, count: int, size: int = 100) -> None:
        records = [Record(i, 1, None, b"%08d" % (self.sent + i) + bytes(size)) for i in range(count)]
        result = self.server.partitions.hosted.get(("t", 0)).append(bytearray(encode_batch(records)), 1)
        assert result.error == 0
        self.sent += count

    def received(self) -> list[int]:
        hosted = self.server.partitions.hosted.get(("t", 0))
        found, offset = [], hosted.log_start_offset
        while offset < hosted.log_end_offset:
            slice_ = hosted.log.read(offset, 1)
            found += [int((record.value or b"")[:8]) for record in decode_batch(slice_.bytes())]
            offset = slice_.next_offset
        return found

    async def until(self, condition: Any) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.005)


class Asked:
    """The part of a `Call` that these handlers use."""

    def __init__(self, broker: Any, request: Any) -> None:
        self.broker = broker
        self.request = request


def futures_in(directory: str) -> list[str]:
    return [path.name for path in Path(directory).iterdir() if path.name.endswith("-future")]


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    return [tmp_path / "x", tmp_path / "y"]


@pytest.fixture
async def harness(directories: list[Path]) -> AsyncIterator[Harness]:
    async with running(directories) as broker:
        yield Harness(broker, directories)


def running(directories: list[Path], **config: str) -> odradek.Broker:
    paths = ",".join(map(str, directories))
    return odradek.Broker(config={"log.dirs": paths, **config})


async def test_a_replica_moves_while_it_is_written(harness: Harness) -> None:
    await harness.create(segment_bytes="1048576")
    for _ in range(60):
        harness.send(100, 1000)
    source, destination = harness.where(), harness.elsewhere()
    assert harness.move(destination) == 0
    assert set(harness.described()) == {source, destination} and harness.described()[destination] == (6000, True)
    while harness.where() == source:
        harness.send(10)
        await asyncio.sleep(0.002)
    harness.send(5)
    assert harness.where() == destination and harness.described() == {destination: (0, False)}
    assert harness.received() == list(range(harness.sent))
    await harness.until(lambda: harness.known_to_be_in() == destination)


async def test_a_move_to_where_the_replica_is_ends_the_move_to_elsewhere(harness: Harness) -> None:
    await harness.create()
    harness.send(10)
    source = harness.where()
    assert harness.move(harness.elsewhere()) == 0
    assert harness.move(source) == 0
    await harness.until(lambda: harness.described() == {source: (0, False)})
    assert harness.where() == source and harness.move(source) == 0


async def test_a_topic_that_is_deleted_takes_its_move_with_it(harness: Harness) -> None:
    await harness.create()
    harness.send(10)
    destination = harness.elsewhere()
    assert harness.move(destination) == 0
    response = await harness.ask(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=10_000), 6)
    assert response.responses[0].error_code == 0
    await harness.until(lambda: harness.described() == {})
    assert futures_in(destination) == []


async def test_records_below_the_start_are_not_copied(harness: Harness) -> None:
    await harness.create()
    for _ in range(10):
        harness.send(10)
    hosted = harness.server.partitions.hosted.get(("t", 0))
    hosted.advance_log_start_offset(55)
    harness.move(harness.elsewhere())
    source = harness.where()
    await harness.until(lambda: harness.where() != source)
    assert (hosted.log_start_offset, hosted.log_end_offset) == (55, 100)
    assert harness.received() == list(range(50, 100)), "a batch is copied whole"


async def test_the_next_start_goes_on_with_an_interrupted_move(directories: list[Path]) -> None:
    async with running(directories) as broker:
        harness = Harness(broker, directories)
        await harness.create()
        for _ in range(50):
            harness.send(100, 1000)
        source, destination, sent = harness.where(), harness.elsewhere(), harness.sent
        assert harness.move(destination) == 0
        assert harness.where() == source
    async with running(directories) as broker:
        harness = Harness(broker, directories)
        await harness.until(lambda: harness.where() == destination)
        assert harness.received() == list(range(sent))
        await harness.until(lambda: harness.known_to_be_in() == destination)
    async with running(directories) as broker:
        assert Harness(broker, directories).where() == destination


async def test_only_what_is_here_moves_to_where_this_broker_has_directories(harness: Harness) -> None:
    await harness.create()
    assert harness.move("/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
    assert harness.move(harness.elsewhere(), index=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert harness.move(harness.elsewhere(), name="x" * 249) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert harness.move("/nowhere", name="nobody") == ErrorCode.LOG_DIR_NOT_FOUND


async def test_a_cordoned_directory_takes_nothing(directories: list[Path]) -> None:
    async with running(directories, **{"cordoned.log.dirs": str(directories[1])}) as broker:
        harness = Harness(broker, directories)
        await harness.create()
        assert harness.where() == str(directories[0])
        assert harness.move(str(directories[1])) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        results = describe_log_dirs.handle(
            harness.server.services, Asked(harness.server, DescribeLogDirsRequest(None))
        ).results
        assert [result.is_cordoned for result in results] == [False, True]


async def test_every_directory_is_described_with_its_room(harness: Harness) -> None:
    await harness.create()
    harness.send(10)
    results = describe_log_dirs.handle(
        harness.server.services, Asked(harness.server, DescribeLogDirsRequest(None))
    ).results
    assert [result.log_dir for result in results] == harness.directories
    assert all(0 < result.usable_bytes <= result.total_bytes for result in results)
    sizes = [
        partition.partition_size for result in results for topic in result.topics for partition in topic.partitions
    ]
    assert sizes == [harness.server.partitions.hosted.get(("t", 0)).log.size]
    assert (
        describe_log_dirs.handle(harness.server.services, Asked(harness.server, DescribeLogDirsRequest([])))
        .results[0]
        .topics
        == []
    )
