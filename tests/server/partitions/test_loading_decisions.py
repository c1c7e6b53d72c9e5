"""The opening of replicas in simulated time: which come at first, in which order, and what a failure or a stop leaves."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from immutables import Map
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.protocol.internal.cluster_metadata import PartitionRecord, TopicRecord
from odradek.server.partitions import replica_loading
from odradek.server.partitions.replica_loading import SHORTAGE_S, TASK, ReplicaLoading
from odradek.storage.directory import DELETE_SUFFIX, FUTURE_SUFFIX, ReplicaDirectory
from odradek.storage.files.failures import LogDirectoryFailure

from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

OWN, OTHER = 0, 2
TOPIC, GROUPS, GONE = "orders", "__consumer_offsets", "gone"
EPOCH = 41


def id_of(topic: str) -> bytes:
    return topic.encode().ljust(16, b".")


def image_of(*topics: str, count: int = 4, replicas: tuple[int, ...] = (OWN,), brokers: int = 1) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    for topic in topics:
        delta.replay(TopicRecord(topic, id_of(topic)))
        for index in range(count):
            delta.replay(
                PartitionRecord(
                    partition_id=index, topic_id=id_of(topic), replicas=list(replicas), isr=list(replicas),
                    leader=replicas[0], leader_epoch=0, partition_epoch=0, directories=[bytes(16)] * len(replicas),
                )
            )  # fmt: skip
    image = delta.apply(1, 1, 0)
    known: Any = Map(dict.fromkeys(range(brokers)))
    return image._replace(cluster=image.cluster._replace(brokers=known))


class Directory:
    """A log directory that lists the folders that the test names, as `topic-partition` with a suffix."""

    def __init__(self, path: Path, *names: str) -> None:
        self.path = str(path)
        self.names = names
        self.notes = [f"{path}: a note"]
        self.is_online = True
        self.had_clean_shutdown = True
        self.directory_id = bytes(16)
        self.broker_epoch = -1
        self.checkpoints = SimpleNamespace(high_watermarks={(TOPIC, 1): 7})
        self.kept: set[Any] = set()
        self.forgotten: list[Any] = []
        self.deleted: list[tuple[str, int]] = []
        self.discarded: list[Any] = []
        self.failure: LogDirectoryFailure | None = None

    def replicas(self) -> list[ReplicaDirectory]:
        if self.failure is not None:
            raise self.failure
        found = []
        for name in self.names:
            suffix = next((one for one in (DELETE_SUFFIX, FUTURE_SUFFIX) if name.endswith(one)), "")
            topic, _, index = name.removesuffix(suffix).rpartition("-")
            found.append(ReplicaDirectory(topic, int(index), f"{self.path}/{name}", suffix))
        return found

    def look_at(self, replicas: Sequence[Any]) -> list[Any]:
        return [None] * len(replicas)

    def unchanged(self, replica: ReplicaDirectory) -> Any:
        return SimpleNamespace(topic_id=id_of(replica.topic))

    def keep_checkpoints(self, keys: set[Any]) -> None:
        self.kept = keys

    def forget_checkpoint(self, key: Any) -> None:
        self.forgotten.append(key)

    def forget_checkpoints(self, keys: list[Any]) -> None:
        self.forgotten.append(tuple(keys))

    def schedule_delete(self, path: str, now_ms: int) -> None:
        self.deleted.append((path.rpartition("/")[2], now_ms))

    def discard(self, log: Any, now_ms: int) -> None:
        self.discarded.append((log.topic, log.partition))


class Harness:
    """A node that opens its replicas. The threads open them when the test lets them."""

    def __init__(self, *directories: Directory, is_alone: bool = True) -> None:
        self.directories = directories
        self.hosted: dict[Any, int] = {}
        self.failures: list[LogDirectoryFailure] = []
        self.bugs: list[str] = []
        self.opened: list[int] = []
        self.applied: list[tuple[Any, MetadataImage]] = []
        self.failing: dict[Any, Exception] = {}
        self.threads: list[asyncio.Future[None]] = []
        self.is_held = False
        self.partitions: Any = SimpleNamespace(
            directories=directories, get=self.hosted.get, directory_failed=self._failed, are_loaded=False,
            background=SimpleNamespace(failed=lambda name, failure: self.bugs.append(name)),
        )  # fmt: skip
        opening: Any = SimpleNamespace(read=self._read, host=self._host, log_config=lambda image, topic: "config")
        disk: Any = SimpleNamespace(run=self._run)
        self.loading = ReplicaLoading(
            OWN, loop_clock(), self.partitions, opening, disk, lambda: EPOCH, lambda: is_alone
        )
        self.loading.apply = lambda image, key: self.applied.append((key, image))

    def _failed(self, failure: LogDirectoryFailure) -> None:
        self.failures.append(failure)
        if not failure.is_shortage:
            for one in self.directories:
                one.is_online = one.is_online and one.path != failure.directory

    def _read(self, directory: Directory, image: Any, topic: str, index: int, config: Any, noted: Any) -> Any:
        self.opened.append(index)
        if (topic, index) in self.failing:
            raise self.failing[topic, index]
        return SimpleNamespace(
            topic=topic,
            partition=index,
            opening_notes=(),
            recovered_bytes=0,
            damage=_NoDamage(),
            path="p",
            unused_note=None,
        )

    def _host(self, directory: Any, image: Any, log: Any, high_watermark: int) -> None:
        self.hosted[log.topic, log.partition] = high_watermark

    async def _run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        if self.is_held:
            self.threads.append(asyncio.get_running_loop().create_future())
            await self.threads[-1]
        return work(*arguments)

    def load(self, image: MetadataImage) -> int:
        """Returns the number of replicas that are opened before the node serves."""
        return sum(1 for _ in self.loading.load(image))

    def release(self) -> None:
        self.is_held = False
        for thread in self.threads:
            if not thread.done():
                thread.set_result(None)

    def indexes(self) -> list[int]:
        return [index for _, index in self.hosted]


class _NoDamage(list[Any]):
    def save(self) -> None:
        pass


def replicas(count: int, topic: str = TOPIC) -> list[str]:
    return [f"{topic}-{index}" for index in range(count)]


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
        directory = Directory(tmp_path, *replicas(4), *replicas(2, GROUPS), *extra)
        harness = Harness(directory, is_alone=is_alone)
        assert not harness.loading.has_begun
        harness.is_held = True
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
        harness.release()
        await turns()
        assert harness.partitions.are_loaded and len(harness.hosted) == 6
        assert harness.hosted[TOPIC, 1] == 7 and harness.hosted[TOPIC, 2] == 0
        later = 6 - len(at_first)
        assert [key for key, _ in harness.applied] == [(TOPIC, index) for index in range(4 - later, 4)]
        assert not any((TOPIC, index) in harness.loading.waiting for index in range(4))

    simulated(story)


def test_replicas_that_requests_name_are_opened_first_and_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0)
    monkeypatch.setattr(replica_loading, "OPENED_AT_A_TIME", 2)

    async def story() -> None:
        harness = Harness(Directory(tmp_path, *replicas(6)))
        harness.is_held = True
        harness.load(image_of(TOPIC, count=6))
        await turns()
        for index in (5, 0, 3, 9):  # the first two are in work, and the last does not exist
            harness.loading.want((TOPIC, index))
        harness.release()
        await turns()
        assert harness.opened == [0, 1, 5, 3, 2, 4]
        assert harness.partitions.are_loaded

    simulated(story)


def test_second_thread_opens_others_while_a_large_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0)
    monkeypatch.setattr(replica_loading, "OPENED_AT_A_TIME", 1)

    async def story() -> None:
        harness = Harness(Directory(tmp_path, *replicas(4)))
        harness.is_held = True
        harness.load(image_of(TOPIC))
        await after_ms(replica_loading.LARGE_LOG_S * 1000 - 1)
        assert len(harness.threads) == 1
        harness.is_held = False
        await after_ms(2)
        assert harness.opened == [1, 2, 3], "the first thread reads 0"
        assert not harness.partitions.are_loaded and (TOPIC, 0) in harness.loading.waiting
        harness.release()
        await turns()
        assert harness.opened == [1, 2, 3, 0] and harness.partitions.are_loaded

    simulated(story)


@pytest.mark.parametrize(
    ("later", "count", "own", "is_hosted"),
    [(TOPIC, 4, OWN, True), (GONE, 4, OWN, False), (TOPIC, 1, OWN, False), (TOPIC, 4, OTHER, False)],
)
def test_replica_is_added_if_the_newest_image_still_has_it(
    later: str, count: int, own: int, is_hosted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0)

    async def story() -> None:
        directory = Directory(tmp_path, f"{TOPIC}-1")
        harness = Harness(directory)
        harness.is_held = True
        harness.load(image_of(TOPIC))
        await turns()
        newer = image_of(later, count=count, replicas=(own,))
        with harness.loading.paused(newer):
            harness.release()
            await turns()
            assert harness.hosted == {} and harness.applied == [], "nothing has a role meanwhile"
        await turns()
        assert harness.hosted == ({(TOPIC, 1): 7} if is_hosted else {})
        assert directory.discarded == ([] if is_hosted else [(TOPIC, 1)])
        assert harness.applied == [((TOPIC, 1), newer)], "it is made anew if need be"
        assert (TOPIC, 1) in directory.forgotten

    simulated(story)


def test_topic_that_was_deleted_and_made_again_gets_no_old_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0)

    async def story() -> None:
        directory = Directory(tmp_path, f"{TOPIC}-0")
        harness = Harness(directory)
        harness.is_held = True
        harness.load(image_of(TOPIC))
        await turns()
        delta = MetadataDelta(EMPTY_IMAGE)
        delta.replay(TopicRecord(TOPIC, bytes(15) + b"2"))
        delta.replay(PartitionRecord(partition_id=0, topic_id=bytes(15) + b"2", replicas=[OWN], isr=[OWN], leader=OWN))
        with harness.loading.paused(delta.apply(2, 1, 0)):
            pass
        harness.release()
        await turns()
        assert harness.hosted == {} and directory.discarded == [(TOPIC, 0)]

    simulated(story)


def test_folder_whose_replica_is_in_another_directory_is_put_aside(tmp_path: Path) -> None:
    async def story() -> None:
        first, second = Directory(tmp_path / "a", *replicas(1)), Directory(tmp_path / "b", *replicas(2))
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
        bad, good = Directory(tmp_path / "a", *replicas(3)), Directory(tmp_path / "b", f"{TOPIC}-3")
        harness = Harness(bad, good)
        failure = LogDirectoryFailure(bad.path, "reading", OSError(errno.EIO, "broken"))
        if when == "listing":
            bad.failure = failure
        harness.failing[TOPIC, 1] = failure
        harness.load(image_of(TOPIC))
        await turns()
        assert harness.failures == [failure] and harness.bugs == []
        assert harness.partitions.are_loaded, "the others are open"
        assert harness.hosted.keys() == ({(TOPIC, 0), (TOPIC, 3)} if when == "at first" else {(TOPIC, 3)})
        assert (TOPIC, 2) not in harness.loading.waiting

    simulated(story)


def test_shortage_of_descriptors_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0)

    async def story() -> None:
        directory = Directory(tmp_path, *replicas(2))
        harness = Harness(directory)
        shortage = LogDirectoryFailure(directory.path, "opening", OSError(errno.EMFILE, "too many"))
        harness.failing[TOPIC, 1] = shortage
        harness.load(image_of(TOPIC))
        await turns()
        assert harness.failures and harness.hosted == {}
        await after_ms(SHORTAGE_S * 1000 - 1)
        assert len(harness.opened) == 2
        await after_ms(2)
        assert harness.indexes() == [0] and (TOPIC, 1) in harness.loading.waiting
        harness.failing.clear()
        await after_ms(4 * SHORTAGE_S * 1000)
        assert harness.indexes() == [0, 1] and harness.partitions.are_loaded

    simulated(story)


def test_bug_ends_the_opening_and_the_others_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0)
    monkeypatch.setattr(replica_loading, "OPENED_AT_A_TIME", 1)

    async def story() -> None:
        harness = Harness(Directory(tmp_path, *replicas(3)))
        harness.failing[TOPIC, 0] = RuntimeError("a bug")
        harness.load(image_of(TOPIC))
        await turns()
        assert harness.bugs == [TASK] and harness.indexes() == [1, 2]
        assert not harness.partitions.are_loaded and (TOPIC, 0) in harness.loading.waiting
        await harness.loading.stop()

    simulated(story)


def test_stop_ends_the_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0)
    monkeypatch.setattr(replica_loading, "OPENED_AT_A_TIME", 3)

    async def story() -> None:
        harness = Harness(Directory(tmp_path, *replicas(4)))
        harness.is_held = True
        harness.load(image_of(TOPIC))
        await turns()
        harness.release()  # the thread that compares files with notes; the next one opens logs
        harness.is_held = True
        await turns()
        stopping = asyncio.ensure_future(harness.loading.stop())
        await turns()
        assert not stopping.done(), "it waits for the thread"
        harness.release()
        await stopping
        assert harness.opened == [0], "the thread stops after the log that it reads"
        assert harness.hosted == {} and harness.applied == [] and not harness.partitions.are_loaded

    simulated(story)


def test_thread_gives_way_after_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0)
    seconds = iter(range(100))
    monkeypatch.setattr(replica_loading, "time", SimpleNamespace(monotonic=lambda: next(seconds) / 100))
    monkeypatch.setattr(replica_loading, "OPENING_S", 0.02)

    async def story() -> None:
        harness = Harness(Directory(tmp_path, *replicas(4)))
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
        first, second = Directory(tmp_path / "a", *replicas(3)), Directory(tmp_path / "b")
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


def test_replica_that_a_thread_has_to_open_is_looked_at_among_many_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0)
    seconds = iter(range(1000))
    monkeypatch.setattr(replica_loading, "time", SimpleNamespace(monotonic=lambda: next(seconds) / 100))
    looks: list[int] = []

    def look_at(replicas: Sequence[Any]) -> list[Any]:
        looks.extend(replica.partition for replica, _ in replicas)
        return [None] * len(replicas)

    async def story() -> None:
        directory = Directory(tmp_path, *replicas(9))
        monkeypatch.setattr(directory, "look_at", look_at)
        harness = Harness(directory)
        harness.load(image_of(TOPIC, count=9))
        await turns()
        assert harness.opened == list(range(9)) and harness.partitions.are_loaded, "three by three, by the clock"
        assert looks == list(range(9))

    simulated(story)


def test_replica_that_was_seen_is_opened_by_the_loop_if_it_still_is_of_this_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_loading, "OPENED_AT_FIRST", 0)
    ids = {0: id_of(TOPIC), 1: id_of(GONE), 2: id_of(TOPIC), 3: id_of(TOPIC), 4: id_of(TOPIC)}

    async def story() -> None:
        directory = Directory(tmp_path, *replicas(5))
        seen = [SimpleNamespace(noted=SimpleNamespace(topic_id=topic_id)) for topic_id in ids.values()]
        monkeypatch.setattr(directory, "look_at", lambda replicas: seen)
        harness = Harness(directory)
        loop_opened: list[int] = []

        def open_seen(directory: Any, image: Any, replica: Any, seen: Any, *, is_replicated: bool) -> Any:
            assert not is_replicated
            if replica.partition == 2:
                return None
            loop_opened.append(replica.partition)
            return SimpleNamespace(topic=replica.topic, partition=replica.partition)

        harness.loading._opening.open_seen = open_seen  # type: ignore[method-assign]
        harness.load(image_of(TOPIC, count=4))
        await turns()
        assert loop_opened == [0, 3], "1 has the id of another topic, 4 is not in the metadata"
        assert harness.opened == [1, 2], "these are opened by a thread"
        assert harness.partitions.are_loaded and harness.indexes() == [0, 3, 1, 2]
        assert harness.hosted[TOPIC, 1] == 7 and (TOPIC, 0) in directory.forgotten

    simulated(story)
