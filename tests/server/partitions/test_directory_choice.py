"""Replicas in the log directories of a broker: their roles, where new ones go, and what a failing directory does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.client.peers import Peers
from odradek.metadata.image import PartitionImage
from odradek.protocol.errors import ErrorCode
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller import stopped_brokers
from odradek.server.controller.stopped_brokers import HEARD_TURNS, HELD_MS, LISTED_MS, StoppedBrokers
from odradek.server.partitions.cordoning import CORDONED_KEY, cordoned_ids
from odradek.server.partitions.directory_choice import DirectoryChoice
from odradek.server.partitions.partitions import Partitions
from odradek.server.partitions.pending_partitions import MOST_IN_A_TURN, RETRY_S, PendingPartitions
from odradek.server.partitions.roles import RoleAssignment
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.log_lines import RepeatedLines
from odradek.server.runtime.metadata_cache import MetadataCache
from odradek.storage.directory import LogDirectory
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.segments.damage import DamagedRange

from tests.replication.controller_transcript import Transcript
from tests.server.harness.hosted import NOW_MS, TOPIC, TOPIC_ID, Hosted, batch
from tests.server.harness.images import broker_record, image_with
from tests.server.harness.log_directories import formatted_directories
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.set_clock import SetClock
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns, with_broker

OWN, SECOND = 0, 2


def registration(*replicas: int, leader: int, epoch: int = 1) -> PartitionImage:
    return PartitionImage(replicas, replicas, leader, epoch, epoch, (bytes(16),) * len(replicas))


# ---- roles


class Roles:
    """The roles that broker 0 gives. `epoch` is that of its registration, None if the image has none of it."""

    def __init__(self, path: Path, *, own_epoch: int = 7, in_image: int | None = 7, damage: bool = False) -> None:
        self.followed: list[Any] = []
        self.healed: list[Any] = []
        brokers = [] if in_image is None else [broker_record(OWN, epoch=in_image)]
        self.image = image_with(*brokers)
        clock = SetClock(NOW_MS)
        self.roles = RoleAssignment(OWN, clock, lambda: own_epoch, self.followed.append, self.healed.append)
        self.hosted = Hosted(path, OWN)
        if damage:
            self.hosted.log.damage.add(DamagedRange("0.log", 0, 10, 0, 1, "rot"))

    def assign(self, found: PartitionImage) -> None:
        self.roles.assign(self.image, self.hosted, found)


@pytest.mark.parametrize(("in_image", "leads"), [(7, True), (6, False), (8, False), (None, False)])
def test_broker_leads_only_what_its_present_registration_may(in_image: int | None, leads: bool, tmp_path: Path) -> None:
    harness = Roles(tmp_path, in_image=in_image)
    harness.assign(registration(OWN, SECOND, leader=OWN))
    assert harness.hosted.is_leader == leads
    assert harness.hosted.role.leader == (OWN if leads else -1)
    assert harness.hosted.role.replicas == (OWN, SECOND)
    harness.assign(registration(OWN, SECOND, leader=SECOND, epoch=2))
    assert harness.hosted.role.leader == SECOND, "it follows whatever its own registration is"


def test_replicated_partition_is_followed_when_its_leader_or_epoch_changes(tmp_path: Path) -> None:
    harness = Roles(tmp_path)
    for found, count in (
        (registration(OWN, SECOND, leader=SECOND), 1),
        (registration(OWN, SECOND, leader=SECOND), 1),
        (registration(OWN, SECOND, leader=SECOND, epoch=2), 2),
        (registration(OWN, SECOND, leader=OWN, epoch=3), 3),
        (registration(OWN, leader=OWN, epoch=4), 3),
    ):
        harness.assign(found)
        assert len(harness.followed) == count
    assert harness.healed == []


def test_damaged_partition_is_healed(tmp_path: Path) -> None:
    harness = Roles(tmp_path, damage=True)
    harness.assign(registration(OWN, SECOND, leader=SECOND))
    harness.assign(registration(OWN, SECOND, leader=SECOND))
    assert len(harness.healed) == 2 and len(harness.followed) == 1


# ---- directories


@pytest.fixture
def directories(tmp_path: Path) -> Iterator[list[LogDirectory]]:
    opened = formatted_directories(tmp_path, 3)
    yield opened
    for directory in opened:
        directory.close()


def hosted_in(partitions: Partitions, directory: LogDirectory, index: int) -> Hosted:
    made = Hosted(Path(directory.path), OWN, index=index)
    made.directory = directory
    partitions.add(made)
    return made


def test_new_replica_goes_where_the_metadata_says_or_where_the_fewest_are(directories: list[LogDirectory]) -> None:
    partitions = NotedPartitions(directories=directories)
    for index, directory in enumerate((*[directories[0]] * 3, directories[1], directories[2])):
        hosted_in(partitions, directory, index)
    paths = ",".join(directory.path for directory in directories)
    config = BrokerConfig({"log.dirs": paths})
    choice = DirectoryChoice(OWN, config, partitions)

    def cordon(*cordoned: LogDirectory) -> None:
        config.take_dynamic({}, {CORDONED_KEY: ",".join(directory.path for directory in cordoned)})

    def chosen(named: bytes = bytes(16)) -> int:
        found = choice.directory_for(PartitionImage((SECOND, OWN), (), SECOND, 0, 0, (bytes(16), named)))
        assert found is not None
        return directories.index(found)

    assert chosen(bytes([1]) * 16) == 0
    assert [chosen() for _ in range(6)] == [1, 2, 1, 2, 0, 1], "each counts for the next"
    choice.begin()
    assert chosen() == 1
    cordon(directories[1])
    choice.begin()
    assert [chosen() for _ in range(4)] == [2, 2, 0, 2]
    assert chosen(bytes([2]) * 16) == 1, "the metadata says so"
    cordon(*directories)
    choice.begin()
    assert chosen() == 1, "where no other is, a cordoned one takes it"
    directories[1].fail()
    assert chosen(bytes([2]) * 16) in (0, 2)
    directories[0].fail()
    directories[2].fail()
    assert choice.directory_for(registration(OWN, leader=OWN)) is None


def test_cordoned_directories_are_reported_by_their_ids(directories: list[LogDirectory]) -> None:
    config = BrokerConfig({"log.dirs": directories[1].path, "cordoned.log.dirs": directories[1].path})
    assert cordoned_ids(config, directories) == [bytes([2]) * 16]
    assert CORDONED_KEY == "cordoned.log.dirs"
    everything = BrokerConfig({CORDONED_KEY: "*"})
    assert len(cordoned_ids(everything, directories)) == 3


def test_failing_directory_takes_its_own_partitions_offline_once(directories: list[LogDirectory]) -> None:
    partitions = NotedPartitions(directories=directories)
    hosted = [hosted_in(partitions, directory, index) for index, directory in enumerate(directories)]
    waiting: list[int] = []
    for one in hosted:
        one.lead(SECOND)
        one.append(batch(), NOW_MS)
        one.when_committed(1, waiting.append)
    failure = LogDirectoryFailure(directories[1].path, "x", OSError(5, "broken"))
    for _ in range(2):
        partitions.directory_failed(failure)
    assert [one.offline for one in hosted] == [False, True, False] == [not one.is_online for one in directories]
    assert waiting == [ErrorCode.KAFKA_STORAGE_ERROR] and partitions.failures == [failure, failure]
    assert partitions.in_directory(directories[2]) == [hosted[2]]
    assert partitions.high_watermarks(directories[0]) == {(TOPIC, 0): 0}


async def test_shortage_of_descriptors_takes_no_directory_offline(directories: list[LogDirectory]) -> None:
    partitions = NotedPartitions(directories=directories)
    partitions.directory_failed(LogDirectoryFailure(directories[1].path, "x", OSError(24, "Too many open files")))
    assert partitions.failures == [] and all(one.is_online for one in directories)


@pytest.mark.parametrize("offline", [True, False])
def test_removed_replica_is_found_no_more_and_its_files_go(offline: bool, directories: list[LogDirectory]) -> None:
    partitions = NotedPartitions(directories=directories)
    hosted = hosted_in(partitions, directories[0], 0)
    hosted.lead(SECOND)
    hosted.append(batch(), NOW_MS)
    waiting: list[int] = []
    hosted.when_committed(1, waiting.append)
    hosted.offline = offline
    assert partitions.get((TOPIC, 0)) is partitions.get_by_id((TOPIC_ID, 0)) is hosted and len(partitions) == 1
    partitions.remove(hosted)
    assert partitions.get((TOPIC, 0)) is partitions.get_by_id((TOPIC_ID, 0)) is None
    assert (len(partitions), list(partitions), hosted.is_removed, hosted.is_leader) == (0, [], True, False)
    assert waiting == [ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert directories[0].has_scheduled_deletions == (not offline)


# ---- partitions without room


class Unmade:
    """Partitions of one topic that are tried again. `room` has the number of those that can be made."""

    def __init__(self, count: int) -> None:
        self.room = 0
        self.tried: list[int] = []
        self.made: list[int] = []
        metadata = MetadataCache()
        transcript = Transcript()
        transcript.run(
            f"> broker 0\n> CreateTopics topics=\"[{{'name':'a','num_partitions':{count},'replication_factor':1}}]\"\n"
        )
        metadata.image = transcript.controller.image
        self.pending = PendingPartitions(OWN, loop_clock(), metadata, RepeatedLines())
        self.pending.make = self._make
        self.pending.on_made.append(lambda image: self.made.append(len(self.pending)))

    def add(self, index: int, topic: str = "a") -> None:
        failure = LogDirectoryFailure("/d", "x", OSError(28, "full"))
        self.pending.add((topic, index), failure, None, None)

    def _make(self, image: Any, topic: str, topic_id: bytes, index: int, found: PartitionImage) -> None:
        self.tried.append(index)
        if self.room > 0:
            self.room -= 1
            self.pending.made(topic, index)
        else:
            self.add(index)


def test_partitions_without_room_are_tried_again_one_after_the_other() -> None:
    async def story() -> None:
        harness = Unmade(3)
        for index in range(3):
            harness.add(index)
        harness.add(9)
        harness.add(0, "gone")
        assert ("a", 1) in harness.pending and len(harness.pending) == 5
        await after_ms(RETRY_S * 1000 - 10)
        assert harness.tried == []
        await after_ms(20)
        assert harness.tried == [0], "without room for one there is none for the others"
        harness.room = 1
        await after_ms(RETRY_S * 1000)
        assert harness.tried == [0, 1, 2] and harness.made == [4], "the one that failed is the last"
        harness.room = 9
        await after_ms(RETRY_S * 1000)
        assert harness.tried == [0, 1, 2, 0, 2] and len(harness.pending) == 0
        await after_ms(10_000)
        assert len(harness.tried) == 5

    simulated(story)


def test_many_partitions_are_made_in_turns_and_none_while_an_image_is_applied() -> None:
    async def story() -> None:
        harness = Unmade(MOST_IN_A_TURN + 5)
        harness.room = 100
        for index in range(MOST_IN_A_TURN + 5):
            harness.add(index)
        with harness.pending.paused():
            await after_ms(3 * RETRY_S * 1000)
            assert harness.tried == []
        await after_ms(RETRY_S * 1000 + 10)
        assert len(harness.tried) == MOST_IN_A_TURN + 5 and harness.made == [5, 0]
        harness.add(0)
        harness.pending.stop()
        await after_ms(10_000)
        assert len(harness.pending) == 0 and harness.made == [5, 0]

    simulated(story)


@pytest.mark.parametrize("has_files", [True, False])
def test_partition_that_could_not_be_made_leaves_no_new_files(has_files: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Unmade(1)
        log = Hosted(tmp_path, OWN, topic="b").log
        log.append(batch(), None, NOW_MS)
        path = tmp_path / "a-0"
        if has_files:
            path.mkdir()
            (path / "x").write_bytes(b"x")
        harness.pending.add(("a", 0), LogDirectoryFailure("/d", "x", OSError(28, "full")), log, str(path))
        assert log.active._file is None, "it is closed"
        assert log.recovery_point == 0, "it is not flushed"
        assert not path.exists()

    simulated(story)


# ---- brokers that stop


class EndingPeers(Peers):
    """Connections of which some have ended at the next `ended` looks."""

    def __init__(self) -> None:
        super().__init__("test")
        self.ended = 0

    def have_some_ended(self) -> bool:
        self.ended -= 1
        return self.ended >= 0


class Stopping:
    """The recently stopped brokers of a node that has brokers 1, 2 and 3 in its image."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, gone: bool = True) -> None:
        transcript = Transcript()
        transcript.run("> broker 1\n> broker 2\n> broker 3\n")
        self.metadata = MetadataCache()
        self.metadata.image = transcript.controller.image
        self.peers = EndingPeers()
        self.stopped = StoppedBrokers(self.metadata, Lazy(lambda: self.peers))
        self.stopped.start()

        async def is_gone(addresses: Any, again_s: Any) -> bool:
            return gone

        monkeypatch.setattr(stopped_brokers, "is_gone", is_gone)

    def publish(self, broker_id: int, **changes: Any) -> None:
        self.metadata.image = with_broker(self.metadata.image, broker_id, **changes)
        for function in self.metadata.on_published:
            function(self.metadata.image)


@pytest.mark.parametrize("gone", [True, False])
def test_metadata_waits_for_brokers_whose_connection_ended(gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Stopping(monkeypatch, gone=gone)
        harness.peers.on_any_lost("b2", 9092)
        harness.peers.on_any_lost("b2", 1)
        harness.peers.on_any_lost("other", 9092)
        assert set(harness.stopped.leaving) == {2}
        responses: list[int] = []
        harness.stopped.when_known(lambda: responses.append(1))
        await turns()
        assert bool(responses) != gone
        await after_ms(HELD_MS - 20)
        assert bool(responses) != gone
        await after_ms(40)
        assert responses == [1] and not harness.stopped.leaving

    simulated(story)


def test_decision_of_the_controller_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Stopping(monkeypatch)
        for host in ("b2", "b3"):
            harness.peers.on_any_lost(host, 9092)
        responses: list[int] = []
        harness.stopped.when_known(lambda: responses.append(1))
        await turns()
        harness.publish(2, rack="x")
        await turns()
        assert set(harness.stopped.leaving) == {2, 3}
        harness.publish(2, fenced=True)
        await turns()
        assert set(harness.stopped.leaving) == {3} and responses == []
        harness.publish(3, fenced=True)
        await turns()
        assert responses == [1]

    simulated(story)


@pytest.mark.parametrize(
    ("first", "second", "is_listed"),
    [
        ({}, {"fenced": True}, True),
        ({"in_controlled_shutdown": True}, {"fenced": True}, False),
        ({"fenced": True}, {"fenced": True, "rack": "x"}, True),
        ({"fenced": True}, {"fenced": False}, False),
    ],
)
def test_broker_that_stopped_without_a_shutdown_stays_listed_for_a_while(
    first: dict[str, Any], second: dict[str, Any], is_listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        harness = Stopping(monkeypatch)
        assert list(harness.stopped.still_listed()) == []
        harness.publish(2, **first)
        harness.publish(2, **second)
        assert list(harness.stopped.still_listed()) == ([2] if is_listed else [])
        await after_ms(LISTED_MS - 20)
        assert list(harness.stopped.still_listed()) == ([2] if is_listed else [])
        await after_ms(40)
        assert list(harness.stopped.still_listed()) == []

    simulated(story)


@pytest.mark.parametrize(("ended", "turns_"), [(0, 0), (1, 1), (2, 2), (99, HEARD_TURNS)])
def test_response_waits_some_turns_for_connections_that_have_ended(
    ended: int, turns_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        harness = Stopping(monkeypatch)
        harness.peers.ended = ended
        responses: list[int] = []
        harness.stopped.when_heard(lambda: responses.append(1))
        for _ in range(turns_):
            assert responses == []
            await asyncio.sleep(0)
        assert responses == [1]

    simulated(story)
