"""Moves of replicas between real log directories: what is copied, when the logs change places, and how a move ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.errors import CorruptBatch
from odradek.server.replicas import moves as moves_module
from odradek.server.replicas.moves import LAST_PART_BYTES, TASK, ReplicaMoves
from odradek.server.runtime.background_tasks import RETRY_MS, BackgroundTasks
from odradek.storage.directory import DELETE_SUFFIX, FUTURE_SUFFIX, LogDirectory
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.files.partition_metadata import read_topic_id, write_topic_id
from odradek.storage.log.log import Log

from tests.server.harness.hosted import NOW_MS, TOPIC, TOPIC_ID, Hosted, batch
from tests.server.harness.noted_cleaner import NotedCleaner
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.noted_reports import NotedReports
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

#: Two of them are more than the part that is copied at once.
LARGE = b"v" * (LAST_PART_BYTES * 2 // 3)
EPOCH = 1


class Disk:
    """A pool of one thread that works when the test lets it."""

    def __init__(self) -> None:
        self.ran = 0
        self.is_open = asyncio.Event()
        self.is_open.set()
        #: The work that is done before the pool waits again.
        self.before_closing = 0
        self.failures: list[Exception] = []

    def do(self, count: int) -> None:
        self.before_closing = count
        self.is_open.set()

    async def run(self, work: Callable[[], Any]) -> Any:
        self.ran += 1
        await self.is_open.wait()
        self.before_closing -= 1
        if self.before_closing == 0:
            self.is_open.clear()
        if self.failures:
            raise self.failures.pop(0)
        return work()


class Moving:
    """A broker with three log directories, whose partitions lie in the first."""

    def __init__(self, path: Path, partitions: int = 1, **config: Any) -> None:
        self.directories = [LogDirectory.open(path / name) for name in "abc"]
        self.hosted = [Hosted(path / "a", index=index, **config) for index in range(partitions)]
        for one in self.hosted:
            one.directory = self.directories[0]
            write_topic_id(one.log.path, TOPIC_ID)
            one.lead(epoch=EPOCH)
        self.damage: list[Any] = []
        self.disk = Disk()
        self.background = BackgroundTasks()
        self.partitions = NotedPartitions(self.hosted, self.directories)
        self.cleaner = NotedCleaner()
        self.reports = NotedReports()
        disk: Any = self.disk
        self.moves = ReplicaMoves(loop_clock(), self.partitions, self.cleaner, self.reports, disk, self.background)

    def move(self, to: str, index: int = 0) -> None:
        self.moves.move(self.hosted[index], self.directories["abc".index(to)])

    def places(self) -> list[str]:
        """Returns the directory of each partition's log."""
        return [Path(one.log.path).parent.name for one in self.hosted]

    def close(self) -> None:
        for directory in self.directories:
            directory.close()


def folders(path: Path, suffix: str) -> list[str]:
    """Returns the directories that have a folder with the suffix."""
    return sorted(found.parent.name for found in path.glob(f"*/{TOPIC}-*{suffix}"))


def appended(hosted: Hosted, count: int, value: bytes = b"v") -> None:
    for _ in range(count):
        assert not hosted.append(batch(epoch=-1, value=value), NOW_MS).error


def offsets_of(log: Log) -> list[tuple[int, int]]:
    """Returns the offset and the epoch of each batch from the log's start on."""
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 20)
        found += [(header.base_offset, header.leader_epoch) for _, header in iter_headers(read.bytes())]
        offset = read.next_offset
    return found


def story_of(tmp_path: Path, run: Callable[[Moving], Any], partitions: int = 1, **config: Any) -> None:
    async def story() -> None:
        harness = Moving(tmp_path, partitions, **config)
        try:
            await run(harness)
        finally:
            harness.close()

    simulated(story)


# ---- copying


@pytest.mark.parametrize("count", [0, 1, 5])
def test_moved_replica_has_its_records_and_its_place_is_reported(count: int, tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        old = hosted.log
        appended(hosted, count, LARGE)
        harness.move("b")
        move = harness.moves.get(hosted)
        assert move is not None
        assert move.offset_lag == count
        assert harness.moves.into(harness.directories[1]) == [move]
        assert harness.moves.into(harness.directories[2]) == []
        await turns()
        assert harness.places() == ["b"]
        assert hosted.directory is harness.directories[1]
        assert hosted.log is move.future is not old
        assert offsets_of(hosted.log) == [(offset, EPOCH) for offset in range(count)]
        assert hosted.log.epochs.latest == EPOCH
        assert Path(hosted.log.path).name == f"{TOPIC}-0"
        assert read_topic_id(hosted.log.path) == TOPIC_ID
        assert hosted.log.config is old.config
        assert harness.moves.get(hosted) is None
        assert harness.reports.noted == [hosted]
        assert harness.cleaner.moves == [(hosted, harness.directories[0].path)]
        assert folders(tmp_path, DELETE_SUFFIX) == ["a"]
        assert folders(tmp_path, FUTURE_SUFFIX) == []
        assert harness.partitions.failures == []

    story_of(tmp_path, run)


def test_small_rest_is_copied_without_the_disks_thread(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        appended(harness.hosted[0], 3)
        harness.move("b")
        await turns()
        assert (harness.places(), harness.disk.ran) == (["b"], 0)
        appended(harness.hosted[0], 4, LARGE)
        harness.move("c")
        await turns()
        assert harness.places() == ["c"]
        assert harness.disk.ran >= 2, "a chunk and its flush"

    story_of(tmp_path, run)


def test_flushed_chunks_are_below_the_recovery_point_of_the_moved_log(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        appended(hosted, 4, LARGE)
        harness.move("b")
        await turns()
        assert 0 < hosted.log.recovery_point < 4

    story_of(tmp_path, run)


def test_records_that_are_appended_during_the_copy_are_moved_too(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        appended(hosted, 4, LARGE)
        harness.disk.is_open.clear()
        harness.move("b")
        await turns()
        assert harness.places() == ["a"]
        appended(hosted, 2)
        assert hosted.log_end_offset == 6
        harness.disk.is_open.set()
        await turns()
        assert harness.places() == ["b"]
        assert offsets_of(hosted.log) == [(offset, EPOCH) for offset in range(6)]
        appended(hosted, 1)
        assert hosted.log_end_offset == 7

    story_of(tmp_path, run)


@pytest.mark.parametrize(("start", "first"), [(3, 3), (4, 4), (6, None)])
def test_records_that_are_deleted_during_the_copy_are_not_in_the_moved_log(
    start: int, first: int | None, tmp_path: Path
) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        appended(hosted, 6, LARGE)
        harness.disk.is_open.clear()
        harness.move("b")
        await turns()
        hosted.advance_log_start_offset(start)
        harness.disk.is_open.set()
        await turns()
        assert harness.places() == ["b"]
        assert hosted.offsets() == (start, 6, 6)
        assert [offset for offset, _ in offsets_of(hosted.log)][:1] == ([first] if first is not None else [])

    story_of(tmp_path, run)


def test_log_whose_batch_begins_below_its_start_is_moved_with_the_whole_batch(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        hosted.append(batch(10, epoch=-1), NOW_MS)
        appended(hosted, 1)
        hosted.advance_log_start_offset(4)
        harness.move("b")
        await turns()
        assert hosted.offsets() == (4, 11, 11)
        read = hosted.log.read(4, 1 << 20)
        assert [header.base_offset for _, header in iter_headers(read.bytes())] == [0, 10]

    story_of(tmp_path, run)


async def half_moved(harness: Moving) -> Hosted:
    """Returns a replica with six batches, of which two are copied and the third is on its way."""
    [hosted] = harness.hosted
    appended(hosted, 6, LARGE)
    harness.disk.is_open.clear()
    harness.move("b")
    await turns()
    harness.disk.do(2)
    await turns()
    move = harness.moves.get(hosted)
    assert move is not None
    assert move.future.log_end_offset == 2
    return hosted


def truncated(hosted: Hosted, offset: int) -> None:
    """Has the replica follow a new leader, which has no records from the offset on."""
    hosted.follow_leader(2, epoch=3)
    hosted.log.truncate_to(offset, NOW_MS)
    hosted.truncated()


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 5])
def test_records_that_are_truncated_during_the_copy_leave_the_moved_log(offset: int, tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        hosted = await half_moved(harness)
        truncated(hosted, offset)
        harness.disk.is_open.set()
        await turns()
        assert harness.places() == ["b"]
        assert offsets_of(hosted.log) == [(number, EPOCH) for number in range(offset)]
        assert harness.partitions.failures == []

    story_of(tmp_path, run)


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 5])
def test_records_in_the_place_of_truncated_ones_are_moved(offset: int, tmp_path: Path) -> None:
    """The log is as long as before, and longer than what was copied: only the epochs show the other records."""

    async def run(harness: Moving) -> None:
        hosted = await half_moved(harness)
        truncated(hosted, offset)
        for number in range(offset, 7):
            hosted.log.append(batch(offset=number, epoch=3, value=LARGE), None, NOW_MS)
        harness.disk.is_open.set()
        await turns()
        assert harness.places() == ["b"]
        assert offsets_of(hosted.log) == [(number, EPOCH if number < offset else 3) for number in range(7)]
        assert hosted.log.epochs.entries() == [(EPOCH, 0), (3, offset)][offset == 0 :]

    story_of(tmp_path, run)


def test_records_that_replaced_others_while_the_broker_was_down_are_moved(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        hosted = await half_moved(harness)
        stopping = asyncio.create_task(harness.moves.stop())
        await turns()
        harness.disk.is_open.set()
        await stopping
        truncated(hosted, 1)
        for number in range(1, 5):
            hosted.log.append(batch(offset=number, epoch=3), None, NOW_MS)
        harness.moves._is_stopping = False
        harness.moves.resume()
        await turns()
        assert harness.places() == ["b"]
        assert [epoch for _, epoch in offsets_of(hosted.log)] == [EPOCH, 3, 3, 3, 3]

    story_of(tmp_path, run)


def test_move_of_a_follower_begins_no_epoch(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        appended(hosted, 2)
        hosted.follow_leader(2, epoch=7)
        harness.move("b")
        await turns()
        assert harness.places() == ["b"]
        assert hosted.log.epochs.entries() == [(EPOCH, 0)]

    story_of(tmp_path, run)


def test_logs_change_places_when_the_cleaner_has_ended_its_work(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        appended(harness.hosted[0], 2)
        harness.cleaner.busy = harness.hosted[0]
        harness.move("b")
        await after_ms(1000)
        assert harness.places() == ["a"]
        harness.cleaner.busy = None
        await after_ms(25)
        assert harness.places() == ["b"]

    story_of(tmp_path, run)


def test_as_many_replicas_move_at_a_time_as_there_are_directories(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        for index, hosted in enumerate(harness.hosted):
            appended(hosted, 4, LARGE)
            harness.move("b", index)
        harness.disk.is_open.clear()
        await turns()
        assert harness.disk.ran == 3
        harness.disk.is_open.set()
        await turns()
        await turns()
        assert harness.places() == ["b"] * 4

    story_of(tmp_path, run, partitions=4)


# ---- ends of moves


def test_move_to_the_present_directory_cancels_the_one_under_way(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        appended(hosted, 4, LARGE)
        harness.disk.is_open.clear()
        harness.move("b")
        await turns()
        harness.move("a")
        assert harness.moves.get(hosted) is None
        harness.disk.is_open.set()
        await turns()
        assert harness.places() == ["a"]
        assert folders(tmp_path, FUTURE_SUFFIX) == []
        assert folders(tmp_path, DELETE_SUFFIX) == ["b"]
        assert harness.reports.noted == []

    story_of(tmp_path, run)


def test_move_to_another_directory_takes_the_place_of_the_one_under_way(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        appended(hosted, 4, LARGE)
        harness.disk.is_open.clear()
        harness.move("b")
        await turns()
        harness.move("c")
        current = harness.moves.get(hosted)
        assert current is not None and current.destination is harness.directories[2]
        harness.disk.is_open.set()
        await turns()
        assert harness.places() == ["c"]
        assert folders(tmp_path, DELETE_SUFFIX) == ["a", "b"]

    story_of(tmp_path, run)


def test_second_request_for_the_same_directory_changes_nothing(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        appended(hosted, 4, LARGE)
        harness.disk.is_open.clear()
        harness.move("b")
        await turns()
        before = harness.moves.get(hosted)
        harness.move("b")
        assert harness.moves.get(hosted) is before
        assert folders(tmp_path, FUTURE_SUFFIX) == ["b"]
        harness.disk.is_open.set()
        await turns()
        assert harness.places() == ["b"]

    story_of(tmp_path, run)


def test_replica_in_its_directory_is_not_moved(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        harness.move("a")
        assert harness.moves.get(harness.hosted[0]) is None
        await turns()
        assert folders(tmp_path, FUTURE_SUFFIX) == folders(tmp_path, DELETE_SUFFIX) == []

    story_of(tmp_path, run)


@pytest.mark.parametrize("state", ["removed", "offline", "destination offline"])
def test_move_ends_with_its_partition_or_its_destination(state: str, tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        appended(hosted, 4, LARGE)
        harness.disk.is_open.clear()
        harness.move("b")
        await turns()
        hosted.is_removed, hosted.offline = state == "removed", state == "offline"
        harness.directories[1].is_online = state != "destination offline"
        harness.disk.is_open.set()
        await turns()
        assert harness.places() == ["a"]
        assert harness.moves.get(hosted) is None
        assert folders(tmp_path, FUTURE_SUFFIX) == (["b"] if state == "destination offline" else [])
        assert harness.partitions.failures == []

    story_of(tmp_path, run)


def test_stopped_move_goes_on_at_the_next_start_with_what_it_has(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        appended(hosted, 6, LARGE)
        harness.disk.is_open.clear()
        harness.move("b")
        await turns()
        move = harness.moves.get(hosted)
        assert move is not None
        harness.disk.do(2)
        await turns()
        stopping = asyncio.create_task(harness.moves.stop())
        await turns()
        harness.disk.is_open.set()
        await stopping
        copied = move.future.log_end_offset
        assert copied == 3, "with the chunk that was under way"
        assert harness.places() == ["a"]
        assert folders(tmp_path, FUTURE_SUFFIX) == ["b"]
        assert move.future.recovery_point == copied, "it is flushed"

        began: list[int] = []
        begin = harness.moves._begin

        def noting(*arguments: Any) -> None:
            begin(*arguments)
            resumed = harness.moves.get(hosted)
            assert resumed is not None
            began.append(resumed.future.log_end_offset)

        harness.moves._begin = noting  # type: ignore[method-assign]
        harness.moves._is_stopping = False
        harness.moves.resume()
        await turns()
        assert began == [copied]
        assert harness.places() == ["b"]
        assert offsets_of(hosted.log) == [(offset, EPOCH) for offset in range(6)]

    story_of(tmp_path, run)


def test_stop_discards_the_future_log_of_a_removed_partition(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        appended(hosted, 4, LARGE)
        harness.disk.is_open.clear()
        harness.move("b")
        await turns()
        hosted.is_removed = True
        harness.disk.is_open.set()
        await harness.moves.stop()
        assert folders(tmp_path, FUTURE_SUFFIX) == []

    story_of(tmp_path, run)


@pytest.mark.parametrize("reason", ["other topic id", "not hosted", "hosted there", "offline"])
def test_future_log_that_is_not_wanted_is_deleted_at_the_start(reason: str, tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        destination = harness.directories[0 if reason == "hosted there" else 1]
        index = 9 if reason == "not hosted" else 0
        path = destination.future_path(TOPIC, index)
        Path(path).mkdir()  # noqa: ASYNC240
        write_topic_id(path, bytes(15) + b"\x09" if reason == "other topic id" else TOPIC_ID)
        destination.is_online = reason != "offline"
        harness.moves.resume()
        assert harness.moves.get(harness.hosted[0]) is None
        assert destination.has_scheduled_deletions == (reason != "offline")
        await turns()
        assert harness.places() == ["a"]
        assert not any(one.has_scheduled_deletions for one in harness.directories if one is not destination)
        assert folders(tmp_path, "0") == ["a"], "the log itself"

    story_of(tmp_path, run)


# ---- failures


@pytest.mark.parametrize("is_removed", [True, False])
def test_failing_disk_ends_the_move_and_takes_the_directory_offline_unless_the_partition_is_removed(
    is_removed: bool, tmp_path: Path
) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        appended(hosted, 4, LARGE)
        failure = LogDirectoryFailure("b", "writing", OSError(5, "broken"))
        harness.disk.failures.append(failure)
        harness.disk.is_open.clear()
        harness.move("b")
        await turns()
        hosted.is_removed = is_removed
        harness.disk.is_open.set()
        await turns()
        assert harness.partitions.failures == ([] if is_removed else [failure])
        assert harness.moves.get(hosted) is None
        assert harness.places() == ["a"]

    story_of(tmp_path, run)


def test_damage_in_the_source_ends_the_move_and_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        met: list[Any] = []
        hosted.on_damage = lambda replica, damage: met.append((replica, damage))
        appended(hosted, 4, LARGE)
        damage = CorruptBatch("a hole")
        harness.disk.failures.append(damage)
        harness.move("b")
        await turns()
        assert met == [(hosted, damage)]
        assert harness.moves.get(hosted) is None
        assert folders(tmp_path, FUTURE_SUFFIX) == []
        assert f"the move of {TOPIC}-0" in caplog.text

    story_of(tmp_path, run)


def test_move_that_fails_otherwise_is_tried_again_after_a_while(tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        appended(harness.hosted[0], 4, LARGE)
        harness.disk.failures += [MemoryError("no memory"), MemoryError("no memory")]
        harness.move("b")
        await turns()
        assert (harness.background.failures[TASK], list(harness.background.failing)) == (1, [TASK])
        await after_ms(RETRY_MS - 1000)
        assert harness.background.failures[TASK] == 1
        await after_ms(2000)
        assert (harness.background.failures[TASK], harness.places()) == (2, ["a"])
        await after_ms(RETRY_MS + 1000)
        assert harness.places() == ["b"]
        assert harness.background.failing == {}

    story_of(tmp_path, run)


@pytest.mark.parametrize("end", ["cancelled", "removed"])
def test_move_that_waits_for_its_next_attempt_ends_soon(end: str, tmp_path: Path) -> None:
    async def run(harness: Moving) -> None:
        [hosted] = harness.hosted
        appended(hosted, 4, LARGE)
        harness.disk.failures.append(MemoryError("no memory"))
        harness.move("b")
        await turns()
        if end == "cancelled":
            harness.move("a")
        hosted.is_removed = end == "removed"
        assert folders(tmp_path, FUTURE_SUFFIX) == ["b"]
        await after_ms(int(moves_module._END_POLL_S * 1000) + 10)
        assert folders(tmp_path, FUTURE_SUFFIX) == []

    story_of(tmp_path, run)


def test_move_that_cannot_begin_fails_with_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(harness: Moving) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise OSError(28, "full")

        monkeypatch.setattr(moves_module, "write_topic_id", fail)
        with pytest.raises(LogDirectoryFailure, match="writing into"):
            harness.move("b")
        assert harness.moves.get(harness.hosted[0]) is None

    story_of(tmp_path, run)
