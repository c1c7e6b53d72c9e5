"""The opening of replicas in simulated time: which come at first, in which order, and what a failure or a stop leaves."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from odradek.metadata.image import MetadataImage, TopicPartition
from odradek.server.partitions import replica_loading
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.partitions.replica_loading import SHORTAGE_S, TASK, ReplicaLoading
from odradek.server.partitions.replica_opening import IsrRules, ReplicaOpening
from odradek.server.partitions.topic_settings import SettingsByTopic
from odradek.server.runtime.node import Node
from odradek.storage.directory import DELETE_SUFFIX, FUTURE_SUFFIX, Checkpoints, LogDirectory, ReplicaDirectory
from odradek.storage.files.clean_replicas import CleanReplica
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.files.meta_properties import MetaProperties
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.storage.log.small_log import SeenReplica
from odradek.storage.log.unopened import UnopenedLog

from tests.server.harness.held_disk import HeldDisk
from tests.server.harness.images import UNNAMED_DIRECTORY, broker_record, image_with, topic_id_of, topic_records
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_background import NotedBackground
from tests.server.harness.noted_lines import NotedLines
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

OWN, OTHER = 0, 2
TOPIC, GROUPS, GONE = "orders", "__consumer_offsets", "gone"
EPOCH = 41


def image_of(*topics: str, count: int = 4, replicas: tuple[int, ...] = (OWN,), brokers: int = 1) -> MetadataImage:
    records = [record for topic in topics for record in topic_records(topic, *[replicas] * count)]
    return image_with(*map(broker_record, range(brokers)), *records)


class ListedDirectory(LogDirectory):
    """A log directory that lists the folders that the test names, as `topic-partition` with a suffix."""

    def __init__(self, path: Path, *names: str) -> None:
        super().__init__(path)
        self.names = names
        self.notes = [f"{path}: a note"]
        self.had_clean_shutdown = True
        self.meta_properties = MetaProperties("cluster", OWN, UNNAMED_DIRECTORY)
        self.checkpoints = Checkpoints(high_watermarks={(TOPIC, 1): 7})
        self.kept: set[Any] = set()
        self.forgotten: list[Any] = []
        self.deleted: list[tuple[str, int]] = []
        self.discarded: list[Any] = []
        self.failure: LogDirectoryFailure | None = None
        #: The partitions that were looked at, and what all of them are seen as.
        self.looks: list[int] = []
        self.seen: list[SeenReplica | None] = []

    def replicas(self, ending: str = "") -> list[ReplicaDirectory]:
        if self.failure is not None:
            raise self.failure
        listed = []
        for name in self.names:
            suffix = next((one for one in (DELETE_SUFFIX, FUTURE_SUFFIX) if name.endswith(one)), "")
            topic, _, index = name.removesuffix(suffix).rpartition("-")
            listed.append(ReplicaDirectory(topic, int(index), f"{self.path}/{name}", suffix))
        return listed

    def look_at(self, replicas: Sequence[tuple[ReplicaDirectory, bytes]]) -> list[SeenReplica | None]:
        self.looks += [replica.partition for replica, _ in replicas]
        return self.seen or [None] * len(replicas)

    def unchanged(self, replica: ReplicaDirectory) -> CleanReplica:
        return CleanReplica(topic_id_of(replica.topic), 0, has_files=True)

    def keep_checkpoints(self, keep: Collection[TopicPartition]) -> None:
        self.kept = set(keep)

    def forget_checkpoint(self, key: TopicPartition) -> None:
        self.forgotten.append(key)

    def forget_checkpoints(self, keep: Collection[TopicPartition] = ()) -> None:
        self.forgotten.append(tuple(keep))

    def schedule_delete(self, path: str, due_ms: int) -> None:
        self.deleted.append((path.rpartition("/")[2], due_ms))

    def discard(self, log: Log | UnopenedLog, now_ms: int) -> None:
        self.discarded.append((log.topic, log.partition))


class ScriptedOpening(ReplicaOpening):
    """Opens logs in the folders, notes their partitions and the high watermarks, and fails for some."""

    def __init__(self, node: Node, partitions: NotedPartitions) -> None:
        rules = IsrRules(node.metadata, 20_000, lambda *_: None)
        super().__init__(node, SettingsByTopic(node.config), partitions, rules, lambda *_: None)
        self.opened: list[int] = []
        self.failing: dict[TopicPartition, Exception] = {}
        self.hosted: dict[TopicPartition, int] = {}

    def read(self, directory: LogDirectory, image: Any, topic: str, index: int, config: Any, noted: Any = None) -> Log:
        self.opened.append(index)
        if (topic, index) in self.failing:
            raise self.failing[topic, index]
        return Log.open(Path(directory.path, f"{topic}-{index}"), topic, index, config, now_ms=0)

    def host(
        self, directory: LogDirectory, image: MetadataImage, opened: Log | UnopenedLog, high_watermark: int
    ) -> HostedPartition:
        self.hosted[opened.topic, opened.partition] = high_watermark
        return super().host(directory, image, opened, high_watermark)


class Harness:
    """A node that opens its replicas. The threads open them when the test lets them."""

    def __init__(self, *directories: ListedDirectory, is_alone: bool = True) -> None:
        node = node_of({"node.id": str(OWN)}, clock=loop_clock())
        self.directories = directories
        self.lines = NotedLines()
        self.partitions = NotedPartitions(directories=directories, lines=self.lines)
        self.partitions.background = self.background = NotedBackground()
        self.opening = ScriptedOpening(node, self.partitions)
        self.opened, self.hosted, self.failing = self.opening.opened, self.opening.hosted, self.opening.failing
        self.applied: list[tuple[Any, MetadataImage]] = []
        self.disk = HeldDisk()
        self.loading = ReplicaLoading(
            OWN, node.clock, self.partitions, self.opening, self.disk, lambda: EPOCH, lambda: is_alone
        )
        self.loading.apply = lambda image, key: self.applied.append((key, image))

    def load(self, image: MetadataImage) -> int:
        """Returns the number of replicas that are opened before the node serves."""
        return sum(1 for _ in self.loading.load(image))

    def indexes(self) -> list[int]:
        return [index for _, index in self.hosted]


class SteppedTime:
    """Stands for the module `time`: each look at the clock takes so long."""

    def __init__(self, step_s: float) -> None:
        self._seconds = 0.0
        self._step_s = step_s

    def monotonic(self) -> float:
        self._seconds += self._step_s
        return self._seconds


def replicas(count: int, topic: str = TOPIC) -> list[str]:
    return [f"{topic}-{index}" for index in range(count)]


@pytest.fixture
def none_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """No replica is opened before the node serves, but those of internal topics."""
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0)


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine opens as many logs in a turn as another one."""
    monkeypatch.setattr(replica_loading, "time", SteppedTime(0))


@pytest.fixture
def stepped_time(_no_time_passes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_loading, "time", SteppedTime(0.01))


@pytest.mark.parametrize(
    ("is_alone", "brokers", "extra", "at_first"),
    [
        (True, 1, [], [0, 1, 0]),
        (False, 1, [], [0, 1, 0, 1, 2, 3]),
        (True, 2, [], [0, 1, 0, 1, 2, 3]),
        (True, 1, [f"{TOPIC}-0{FUTURE_SUFFIX}"], [0, 1, 0, 1, 2, 3]),
        (True, 1, [f"{TOPIC}-0{DELETE_SUFFIX}"], [0, 1, 0]),
    ],
)
def test_single_node_serves_when_some_replicas_are_open(
    is_alone: bool, brokers: int, extra: list[str], at_first: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 1)

    async def story() -> None:
        directory = ListedDirectory(tmp_path, *replicas(4), *replicas(2, GROUPS), *extra)
        harness = Harness(directory, is_alone=is_alone)
        assert not harness.loading.has_begun
        harness.disk.is_held = True
        image = image_of(TOPIC, GROUPS, brokers=brokers)
        assert harness.load(image) == len(at_first)
        assert harness.opened == at_first, "internal topics come first"
        assert harness.loading.has_begun and harness.partitions.are_loaded == (len(at_first) == 6)
        assert [(TOPIC, index) in harness.loading.waiting for index in range(4)] == [
            index not in at_first[2:] for index in range(4)
        ]
        assert directory.deleted == [(one, loop_clock().now_ms()) for one in extra if one.endswith(DELETE_SUFFIX)]
        assert directory.broker_epoch == EPOCH
        await turns()
        harness.disk.release()
        await turns()
        assert harness.partitions.are_loaded and len(harness.hosted) == 6
        assert harness.hosted[TOPIC, 1] == 7 and harness.hosted[TOPIC, 2] == 0
        later = 6 - len(at_first)
        assert [key for key, _ in harness.applied] == [(TOPIC, index) for index in range(4 - later, 4)]
        assert not any((TOPIC, index) in harness.loading.waiting for index in range(4))

    simulated(story)


@pytest.mark.usefixtures("none_at_first")
def test_replicas_that_requests_name_are_opened_first_and_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_A_TIME", 2)

    async def story() -> None:
        harness = Harness(ListedDirectory(tmp_path, *replicas(6)))
        harness.disk.is_held = True
        harness.load(image_of(TOPIC, count=6))
        await turns()
        for index in (5, 0, 3, 9):  # the first two are in work, and the last does not exist
            harness.loading.want((TOPIC, index))
        harness.disk.release()
        await turns()
        assert harness.opened == [0, 1, 5, 3, 2, 4]
        assert harness.partitions.are_loaded

    simulated(story)


@pytest.mark.usefixtures("none_at_first")
def test_second_thread_opens_others_while_a_large_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_A_TIME", 1)

    async def story() -> None:
        harness = Harness(ListedDirectory(tmp_path, *replicas(4)))
        harness.disk.is_held = True
        harness.load(image_of(TOPIC))
        await after_ms(replica_loading.LARGE_LOG_S * 1000 - 1)
        assert len(harness.disk.threads) == 1
        harness.disk.is_held = False
        await after_ms(2)
        assert harness.opened == [1, 2, 3], "the first thread reads 0"
        assert not harness.partitions.are_loaded and (TOPIC, 0) in harness.loading.waiting
        harness.disk.release()
        await turns()
        assert harness.opened == [1, 2, 3, 0] and harness.partitions.are_loaded

    simulated(story)


@pytest.mark.parametrize(
    ("later", "count", "own", "is_hosted"),
    [(TOPIC, 4, OWN, True), (GONE, 4, OWN, False), (TOPIC, 1, OWN, False), (TOPIC, 4, OTHER, False)],
)
@pytest.mark.usefixtures("none_at_first")
def test_replica_is_added_if_the_newest_image_still_has_it(
    later: str, count: int, own: int, is_hosted: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        directory = ListedDirectory(tmp_path, f"{TOPIC}-1")
        harness = Harness(directory)
        harness.disk.is_held = True
        harness.load(image_of(TOPIC))
        await turns()
        newer = image_of(later, count=count, replicas=(own,))
        with harness.loading.paused(newer):
            harness.disk.release()
            await turns()
            assert harness.hosted == {} and harness.applied == [], "nothing has a role meanwhile"
        await turns()
        assert harness.hosted == ({(TOPIC, 1): 7} if is_hosted else {})
        assert directory.discarded == ([] if is_hosted else [(TOPIC, 1)])
        assert harness.applied == [((TOPIC, 1), newer)], "it is made anew if need be"
        assert (TOPIC, 1) in directory.forgotten

    simulated(story)


@pytest.mark.usefixtures("none_at_first")
def test_topic_that_was_deleted_and_made_again_gets_no_old_records(tmp_path: Path) -> None:
    async def story() -> None:
        directory = ListedDirectory(tmp_path, f"{TOPIC}-0")
        harness = Harness(directory)
        harness.disk.is_held = True
        harness.load(image_of(TOPIC))
        await turns()
        again = image_with(*topic_records(TOPIC, (OWN,), topic_id=bytes(15) + b"2"))
        with harness.loading.paused(again):
            pass
        harness.disk.release()
        await turns()
        assert harness.hosted == {} and directory.discarded == [(TOPIC, 0)]

    simulated(story)


def test_folder_whose_replica_is_in_another_directory_is_put_aside(tmp_path: Path) -> None:
    async def story() -> None:
        first, second = ListedDirectory(tmp_path / "a", *replicas(1)), ListedDirectory(tmp_path / "b", *replicas(2))
        for directory in (first, second):
            for name in directory.names:
                (Path(directory.path) / name).mkdir(parents=True)
        harness = Harness(first, second)
        assert harness.load(image_of(TOPIC)) == 3
        assert harness.opened == [0, 1] and harness.indexes() == [0, 1]
        assert (tmp_path / "a" / f"{TOPIC}-0").exists()
        strays = [one.name for one in (tmp_path / "b").iterdir()]
        assert f"{TOPIC}-1" in strays and any(one.endswith("-stray") for one in strays) and len(strays) == 2

    simulated(story)


@pytest.mark.parametrize("when", ["listing", "at first", "later"])
def test_directory_that_fails_has_no_more_replicas_opened(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0 if when == "later" else 9)

    async def story() -> None:
        bad, good = ListedDirectory(tmp_path / "a", *replicas(3)), ListedDirectory(tmp_path / "b", f"{TOPIC}-3")
        harness = Harness(bad, good)
        failure = LogDirectoryFailure(bad.path, "reading", OSError(errno.EIO, "broken"))
        if when == "listing":
            bad.failure = failure
        harness.failing[TOPIC, 1] = failure
        harness.load(image_of(TOPIC))
        await turns()
        assert harness.partitions.failures == [failure] and harness.background.attempts == []
        assert harness.partitions.are_loaded, "the others are open"
        assert harness.hosted.keys() == ({(TOPIC, 0), (TOPIC, 3)} if when == "at first" else {(TOPIC, 3)})
        assert (TOPIC, 2) not in harness.loading.waiting

    simulated(story)


@pytest.mark.usefixtures("none_at_first")
def test_shortage_of_descriptors_is_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        directory = ListedDirectory(tmp_path, *replicas(2))
        harness = Harness(directory)
        shortage = LogDirectoryFailure(directory.path, "opening", OSError(errno.EMFILE, "too many"))
        harness.failing[TOPIC, 1] = shortage
        harness.load(image_of(TOPIC))
        await turns()
        assert harness.lines.words and harness.hosted == {}
        await after_ms(SHORTAGE_S * 1000 - 1)
        assert len(harness.opened) == 2
        await after_ms(2)
        assert harness.indexes() == [0] and (TOPIC, 1) in harness.loading.waiting
        harness.failing.clear()
        await after_ms(4 * SHORTAGE_S * 1000)
        assert harness.indexes() == [0, 1] and harness.partitions.are_loaded

    simulated(story)


@pytest.mark.usefixtures("none_at_first")
def test_bug_ends_the_opening_and_the_others_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_A_TIME", 1)

    async def story() -> None:
        harness = Harness(ListedDirectory(tmp_path, *replicas(3)))
        harness.failing[TOPIC, 0] = RuntimeError("a bug")
        harness.load(image_of(TOPIC))
        await turns()
        assert harness.background.attempts == [f"{TASK} failed"] and harness.indexes() == [1, 2]
        assert not harness.partitions.are_loaded and (TOPIC, 0) in harness.loading.waiting
        await harness.loading.stop()

    simulated(story)


@pytest.mark.usefixtures("none_at_first")
def test_stop_ends_the_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_A_TIME", 3)

    async def story() -> None:
        harness = Harness(ListedDirectory(tmp_path, *replicas(4)))
        harness.disk.is_held = True
        harness.load(image_of(TOPIC))
        await turns()
        harness.disk.release()  # the thread that compares files with notes; the next one opens logs
        harness.disk.is_held = True
        await turns()
        stopping = asyncio.ensure_future(harness.loading.stop())
        await turns()
        assert not stopping.done(), "it waits for the thread"
        harness.disk.release()
        await stopping
        assert harness.opened == [0], "the thread stops after the log that it reads"
        assert harness.hosted == {} and harness.applied == [] and not harness.partitions.are_loaded

    simulated(story)


@pytest.mark.usefixtures("none_at_first", "stepped_time")
def test_thread_gives_way_after_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_loading, "OPENING_S", 0.02)

    async def story() -> None:
        harness = Harness(ListedDirectory(tmp_path, *replicas(4)))
        found = [replica_loading.Found(*one) for one in _listed(harness)]
        harness.loading._first = harness.loading._newest = image_of(TOPIC)
        opened, failures = harness.loading._open_some([(one, None) for one in found])
        assert len(opened) == 3 and failures == [], "0.01, 0.02 and 0.03 s after the start"

    simulated(story)


def _listed(harness: Harness) -> list[Any]:
    return [(one, replica, replica[:2]) for one in harness.directories for replica in one.replicas()]


@pytest.mark.parametrize("is_clean", [True, False])
def test_opened_logs_of_each_directory_are_logged(is_clean: bool, tmp_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "odradek.partitions")

    async def story() -> None:
        first, second = ListedDirectory(tmp_path / "a", *replicas(3)), ListedDirectory(tmp_path / "b")
        first.had_clean_shutdown = is_clean
        first.checkpoints.high_watermarks = {(TOPIC, 3): 9, (TOPIC, 2): 5}
        second.checkpoints.high_watermarks = {}
        harness = Harness(first, second)
        harness.load(image_of(TOPIC))
        assert first.kept == {(TOPIC, index) for index in range(4)} and second.kept == set()
        assert first.forgotten[-1] == ((TOPIC, 3),), "a replica that is gone"

    simulated(story)
    how = "a clean shutdown" if is_clean else "an unclean shutdown"
    (line,) = [one for one in caplog.messages if "logs opened" in one]
    assert line.startswith(f"{tmp_path}/a: 3 logs opened after {how} in ")
    assert f"{tmp_path}/a: a note" in caplog.messages


@pytest.mark.usefixtures("none_at_first", "stepped_time")
def test_replica_that_a_thread_has_to_open_is_looked_at_among_many_once(tmp_path: Path) -> None:
    async def story() -> None:
        directory = ListedDirectory(tmp_path, *replicas(9))
        harness = Harness(directory)
        harness.load(image_of(TOPIC, count=9))
        await turns()
        assert harness.opened == list(range(9)) and harness.partitions.are_loaded, "three by three, by the clock"
        assert directory.looks == list(range(9))

    simulated(story)


@pytest.mark.usefixtures("none_at_first")
def test_replica_that_was_seen_is_opened_by_the_loop_if_it_still_is_of_this_broker(tmp_path: Path) -> None:
    ids = {
        0: topic_id_of(TOPIC),
        1: topic_id_of(GONE),
        2: topic_id_of(TOPIC),
        3: topic_id_of(TOPIC),
        4: topic_id_of(TOPIC),
    }

    async def story() -> None:
        directory = ListedDirectory(tmp_path, *replicas(5))
        directory.seen = [
            SeenReplica(CleanReplica(topic_id, 0, has_files=True), is_noted=True) for topic_id in ids.values()
        ]
        harness = Harness(directory)
        loop_opened: list[int] = []

        def open_seen(directory: Any, image: Any, replica: Any, seen: Any, *, is_replicated: bool) -> Any:
            assert not is_replicated
            if replica.partition == 2:
                return None
            loop_opened.append(replica.partition)
            return Log.open(replica.path, replica.topic, replica.partition, LogConfig(), now_ms=0)

        harness.opening.open_seen = open_seen  # type: ignore[method-assign]
        harness.load(image_of(TOPIC, count=4))
        await turns()
        assert loop_opened == [0, 3], "1 has the id of another topic, 4 is not in the metadata"
        assert harness.opened == [1, 2], "these are opened by a thread"
        assert harness.partitions.are_loaded and harness.indexes() == [0, 3, 1, 2]
        assert harness.hosted[TOPIC, 1] == 7 and (TOPIC, 0) in directory.forgotten

    simulated(story)
