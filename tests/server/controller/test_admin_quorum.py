"""A quorum of one: acknowledged changes are on the disk, and it starts with all changes on the disk."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import MetadataImage
from odradek.metadata.metadata_version import DEFAULT
from odradek.metadata.records import encode_record
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import (
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
    TopicRecord,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.records.record import Record, encode_batch
from odradek.protocol.schema import Message
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.flushed_end import FLUSHED_END
from odradek.server.controller.formatting import format_directories
from odradek.server.controller.metadata_log import DIRECTORY_NAME, MetadataLost, QuorumLog
from odradek.server.controller.metadata_opening import InvalidQuorum
from odradek.server.controller.metadata_snapshots import list_snapshots, read_snapshot, write_image_snapshot
from odradek.server.controller.quorum_voters import QuorumVoters
from odradek.server.runtime.sliced_work import run_to_completion
from odradek.storage.files.failures import LogDirectoryFailure

pytestmark = pytest.mark.usefixtures("sockets")

LOG = f"{DIRECTORY_NAME}/{0:020d}.log"


def broker_in(directory: Path, **config: str) -> odradek.Broker:
    return odradek.Broker(data_dir=directory, config=config)


async def ask(broker: odradek.Broker, request: Message, version: int) -> Any:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    broker.server.controller.driver.submit(request, version, done.set_result)
    return await done


async def create(broker: odradek.Broker, *names: str, partitions: int = 1) -> None:
    response = await ask(broker, CreateTopicsRequest([CreatableTopic(name, partitions, 1) for name in names]), 4)
    assert {topic.error_code for topic in response.topics} == {0}


def topics_of(broker: odradek.Broker) -> set[str]:
    return set(broker.server.node.metadata.image.topics.by_name)


def what_lasts(image: MetadataImage) -> tuple[Any, ...]:
    """Returns the image without registrations and leader epochs, which a start changes."""
    topics = {
        t.name: (t.id, {i: (p.replicas, p.directories) for i, p in t.partitions.items()})
        for t in image.topics.by_id.values()
    }
    configs = {resource: dict(values) for resource, values in image.configs.items()}
    return topics, configs, dict(image.features.finalized), image.next_producer_id


# ---- commits


async def test_a_reply_waits_for_the_disk_and_those_of_one_turn_share_a_flush(tmp_path: Path) -> None:
    async with broker_in(tmp_path) as broker:
        disk = SlowDisk(broker)
        for number in range(3):
            disk.submit(broker, CreateTopicsRequest([CreatableTopic(f"a{number}", 1, 1)]), 4)
        await disk.entered()
        disk.submit(broker, CreateTopicsRequest([CreatableTopic("b", 1, 1)]), 4)
        # This request writes nothing, but it reads uncommitted state.
        disk.submit(broker, ListPartitionReassignmentsRequest(), 0)
        assert disk.replies == [] and topics_of(broker) == set()
        disk.release()
        await disk.until(5)
        kinds = [type(reply).__name__.removesuffix("Response") for reply in disk.replies]
        assert kinds == ["CreateTopics"] * 4 + ["ListPartitionReassignments"]
        assert disk.flushes == 2 and topics_of(broker) == {"a0", "a1", "a2", "b"}


async def test_reply_follows_the_change_it_reports(tmp_path: Path) -> None:
    async with broker_in(tmp_path) as broker:
        seen: list[set[str]] = []
        request = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
        broker.server.controller.driver.submit(request, 4, lambda _: seen.append(topics_of(broker)))
        await broker.server.controller.driver.until_idle()
        assert seen == [{"t"}] and broker.server.partitions.hosted.get(("t", 0)).is_leader


async def test_without_its_disk_a_controller_decides_nothing(tmp_path: Path) -> None:
    async with broker_in(tmp_path) as broker:
        disk = SlowDisk(broker, failure=LogDirectoryFailure(str(tmp_path), "flushing", OSError(5, "I/O error")))
        disk.submit(broker, CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 4)
        disk.release()
        await disk.until(1)
        disk.submit(broker, DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)
        errors = [disk.replies[0].topics[0].error_code, disk.replies[1].responses[0].error_code]
        assert errors == [ErrorCode.NOT_CONTROLLER] * 2 and topics_of(broker) == set()
        assert isinstance(broker.server.failed.result(), LogDirectoryFailure)


class SlowDisk:
    """Holds the flushes of a broker's metadata log until the test releases them or makes them fail."""

    def __init__(self, broker: odradek.Broker, failure: Exception | None = None) -> None:
        self.replies: list[Any] = []
        self.flushes = 0
        self._failure = failure
        self._entered, self._released, self._replied = asyncio.Event(), threading.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        quorum_log = broker.server.controller.driver.quorum_log
        self._prepare = quorum_log.prepare_flush
        quorum_log.prepare_flush = self._held  # type: ignore[method-assign]

    def submit(self, broker: odradek.Broker, request: Message, version: int) -> None:
        broker.server.controller.driver.submit(request, version, self._take)

    def _take(self, reply: Any) -> None:
        self.replies.append(reply)
        self._replied.set()

    def _held(self) -> Any:
        pending = self._prepare()
        if pending is not None:
            self.flushes += 1
            run = pending.run
            return _Held(pending, lambda: self._run(run))
        return None

    def _run(self, run: Any) -> None:
        self._loop.call_soon_threadsafe(self._entered.set)
        assert self._released.wait(20)
        if self._failure is not None:
            raise self._failure
        run()

    async def entered(self) -> None:
        await asyncio.wait_for(self._entered.wait(), 20)

    def release(self) -> None:
        self._released.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.replies) < count:
                self._replied.clear()
                await self._replied.wait()


class _Held:
    def __init__(self, pending: Any, run: Any) -> None:
        self.up_to_offset = pending.up_to_offset
        self.generation = pending.generation
        self.run = run


# ---- starts


async def test_a_restart_finds_everything_and_begins_a_new_epoch(tmp_path: Path) -> None:
    async with broker_in(tmp_path) as broker:
        await create(broker, "a", "b", partitions=3)
        before, epoch = what_lasts(broker.server.node.metadata.image), broker.server.controller.driver.epoch
        broker_epoch = broker.server.controller.driver.broker_epoch
    async with broker_in(tmp_path) as broker:
        assert what_lasts(broker.server.node.metadata.image) == before
        assert broker.server.controller.driver.epoch == epoch + 1
        assert broker.server.controller.driver.broker_epoch > broker_epoch
        partition = broker.server.node.metadata.image.partition("a", 0)
        assert partition is not None and (partition.leader, partition.leader_recovery_state) == (1, 0)


async def test_acknowledged_topics_survive_crash(tmp_path: Path) -> None:
    async with broker_in(tmp_path / "data") as broker:
        for number in range(5):
            await create(broker, f"t{number}")
            shutil.copytree(tmp_path / "data", tmp_path / str(number))
    for number in range(5):
        async with broker_in(tmp_path / str(number)) as broker:
            assert topics_of(broker) == {f"t{i}" for i in range(number + 1)}
            assert broker.server.partitions.hosted.get((f"t{number}", 0)).is_leader


async def test_torn_end_of_the_metadata_log_is_cut_off(tmp_path: Path) -> None:
    async with broker_in(tmp_path / "data") as broker:
        await create(broker, "first")
        whole = (tmp_path / "data" / LOG).stat().st_size
        flushed = (tmp_path / "data" / FLUSHED_END).read_bytes()
        await create(broker, "second")
        shutil.copytree(tmp_path / "data", tmp_path / "torn")
    content = (tmp_path / "torn" / LOG).read_bytes()
    for size in range(whole, len(content), 41):
        (tmp_path / "torn" / LOG).write_bytes(content[:size])
        (tmp_path / "torn" / FLUSHED_END).write_bytes(flushed)
        quorum_log = QuorumLog(tmp_path / "torn" / DIRECTORY_NAME, BrokerConfig({}), 1)
        image = run_to_completion(quorum_log.load(1)).delta.apply(0, 0, 0)
        assert set(image.topics.by_name) == {"first"}
        quorum_log.close(1)


async def test_damaged_first_snapshot_is_put_aside_when_the_log_has_all(tmp_path: Path) -> None:
    async with broker_in(tmp_path) as broker:
        await create(broker, "t")
    snapshot = tmp_path / DIRECTORY_NAME / f"{0:020d}-{0:010d}.checkpoint"
    snapshot.chmod(0o600)
    content = bytearray(snapshot.read_bytes())
    content[100] ^= 1
    snapshot.write_bytes(content)
    async with broker_in(tmp_path) as broker:
        assert topics_of(broker) == {"t"}
    assert snapshot.with_name(snapshot.name + ".damaged").read_bytes() == content


async def test_a_cluster_whose_metadata_is_elsewhere_is_not_begun_anew(tmp_path: Path) -> None:
    async with broker_in(tmp_path / "data") as broker:
        await create(broker, "t")
    with pytest.raises(MetadataLost, match=r"is it the metadata\.log\.dir that the cluster used before"):
        await broker_in(tmp_path / "data", **{"metadata.log.dir": str(tmp_path / "new")}).start()


async def test_a_transaction_that_a_crash_cut_short_counts_for_nothing(tmp_path: Path) -> None:
    async with broker_in(tmp_path) as broker:
        await create(broker, "t")
        end = broker.server.controller.driver.high_watermark
        epoch = broker.server.controller.driver.epoch
        shutil.copytree(tmp_path, tmp_path / "copy")
    lost = [BeginTransactionRecord(name="x"), TopicRecord(name="half", topic_id=bytes(range(16)))]
    append(tmp_path / "copy" / LOG, lost, end, epoch)
    async with broker_in(tmp_path / "copy") as broker:
        assert topics_of(broker) == {"t"}
    async with broker_in(tmp_path / "copy") as broker:
        assert topics_of(broker) == {"t"}, "and it was ended in the log too"


def append(path: Path, made: list[Message], offset: int, epoch: int) -> None:
    records = [Record(offset + i, 1, None, encode_record(record, DEFAULT)) for i, record in enumerate(made)]
    batch = encode_batch(records, leader_epoch=epoch)
    with path.open("ab") as file:
        file.write(batch)


async def test_a_directory_whose_features_are_not_known_is_refused(tmp_path: Path) -> None:
    async with broker_in(tmp_path) as broker:
        end, epoch = broker.server.controller.driver.high_watermark, broker.server.controller.driver.epoch
        shutil.copytree(tmp_path, tmp_path / "copy")
    append(tmp_path / "copy" / LOG, [FeatureLevelRecord(name="metadata.version", feature_level=99)], end, epoch)
    with pytest.raises(InvalidQuorum, match=r"metadata\.version is finalized at level 99"):
        await broker_in(tmp_path / "copy").start()


async def test_a_node_that_is_not_the_only_voter_does_not_start(tmp_path: Path) -> None:
    async with broker_in(tmp_path):
        pass
    with pytest.raises(InvalidQuorum, match="voters of the metadata quorum are"):
        await start_as(tmp_path, "2")


async def start_as(directory: Path, node_id: str) -> None:
    properties = (directory / "meta.properties").read_text().replace("node.id=1", f"node.id={node_id}")
    (directory / "meta.properties").write_text(properties)
    await broker_in(directory, **{"node.id": node_id}).start()


async def test_a_directory_of_a_static_quorum_is_opened_and_stays_one(tmp_path: Path) -> None:
    """With kraft.version 0, the voters are in the configuration and not in the log."""
    format_directories(BrokerConfig({"log.dirs": str(tmp_path)}))
    (tmp_path / DIRECTORY_NAME / f"{0:020d}-{0:010d}.checkpoint").unlink()
    for epoch in (1, 2):
        async with broker_in(tmp_path, **{"controller.quorum.voters": "1@localhost:9093"}) as broker:
            await create(broker, f"t{epoch}")
            assert broker.server.controller.driver.kraft_version == 0 and broker.server.controller.driver.epoch == epoch
        state = (tmp_path / DIRECTORY_NAME / "quorum-state").read_text()
        assert '"currentVoters":[{"voterId":1}]' in state and f'"leaderEpoch":{epoch}' in state
    assert list_snapshots(tmp_path / DIRECTORY_NAME) == []


async def test_the_log_names_where_its_voter_is_reached(tmp_path: Path) -> None:
    listeners = {"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}
    ports = []
    for _ in range(2):
        async with odradek.Broker(data_dir=tmp_path, config=listeners) as broker:
            bound = next(listener for listener in broker.server.network.listeners if listener.name == "CONTROLLER")
            (voter,) = broker.server.controller.driver.quorum_log.quorum.voters
            assert [(e.name, e.host, e.port) for e in voter.endpoints] == [
                ("CONTROLLER", bound.endpoint.host, bound.endpoint.port)
            ]
            ports.append(bound.endpoint.port)
    quorum_log = QuorumLog(tmp_path / DIRECTORY_NAME, BrokerConfig({}), 1)
    run_to_completion(quorum_log.load(1))
    assert quorum_log.quorum.voters[0].endpoints[0].port == ports[-1]
    quorum_log.close(1)


# ---- snapshots


async def test_snapshots_are_taken_as_the_log_grows_and_the_log_is_trimmed_behind_them(tmp_path: Path) -> None:
    config = {
        "metadata.log.max.record.bytes.between.snapshots": "5000",
        "metadata.max.retention.bytes": "40000",
        "internal.metadata.log.segment.bytes": "8000",
    }
    directory = tmp_path / DIRECTORY_NAME
    async with broker_in(tmp_path, **config) as broker:
        for number in range(60):
            await create(broker, f"t{number}", partitions=4)
            await ask(broker, DeleteTopicsRequest(topic_names=[f"t{number}"] if number % 3 else [], timeout_ms=1), 5)
        async with asyncio.timeout(20):
            while broker.server.controller.driver.quorum_log.log.log_start_offset == 0:
                await create(broker, f"more{len(topics_of(broker))}")
        before = what_lasts(broker.server.node.metadata.image)
    assert not (directory / f"{0:020d}.log").exists() and not (directory / f"{0:020d}-{0:010d}.checkpoint").exists()
    assert len(list_snapshots(directory)) >= 1
    async with broker_in(tmp_path, **config) as broker:
        assert what_lasts(broker.server.node.metadata.image) == before


def test_a_snapshot_makes_its_image_again(tmp_path: Path) -> None:
    delta = MetadataDelta()
    delta.replay(FeatureLevelRecord(name="metadata.version", feature_level=DEFAULT))
    for number in range(3000):
        delta.replay(TopicRecord(name=f"t{number}", topic_id=number.to_bytes(16, "big")))
        delta.replay(ConfigRecord(resource_type=2, resource_name=f"t{number}", name="retention.ms", value="5"))
    image = delta.apply(77, 3, 1234)
    snapshot = write_image_snapshot(tmp_path, image, QuorumVoters(1, []), 5)
    assert [path.name for path in tmp_path.iterdir()] == [f"{78:020d}-{3:010d}.checkpoint"]
    loaded = run_to_completion(read_snapshot(tmp_path / snapshot.file_name))
    assert loaded.delta.apply(77, 3, 1234) == image
    assert (loaded.quorum.kraft_version, loaded.quorum.last_contained_timestamp_ms) == (1, 1234)


async def test_partial_snapshot_is_removed_at_start(tmp_path: Path) -> None:
    async with broker_in(tmp_path) as broker:
        await create(broker, "t")
    partial = tmp_path / DIRECTORY_NAME / f"{50:020d}-{1:010d}.checkpoint.part"
    partial.write_bytes(b"half")
    async with broker_in(tmp_path) as broker:
        assert topics_of(broker) == {"t"} and not partial.exists()
