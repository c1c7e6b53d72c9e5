"""The cleaner over real logs: which one it takes, what its checkpoint has, and how a cleaning ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.server.replicas import compaction_process
from odradek.server.replicas.cleaner import LogCleaner
from odradek.server.replicas.compaction_process import SMALL_JOB_BYTES, SMALL_JOB_RECORDS, run_job
from odradek.server.runtime.background_tasks import BackgroundTasks
from odradek.storage.compaction import cleaning_job, dirty_range, offset_map
from odradek.storage.directory import LogDirectory
from odradek.storage.files.checkpoints import CLEANER_OFFSETS, find_offsets
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.segments.poison import PoisonedBatch

from tests.server.harness.hosted import NOW_MS, TOPIC, Hosted
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_maintenance import NotedMaintenance
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

BACKOFF_MS = 1000
#: Each batch rolls the segment.
COMPACTED = {"compact": True, "segment_bytes": 100, "min_cleanable_dirty_ratio": 0.0}


class Disk:
    """A pool whose work is done at once, between what the test has to do before and after it."""

    def __init__(self) -> None:
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        self.before()
        result = work(*arguments)
        self.after()
        return result


class Cleaning:
    """Partitions in a directory, of which the first batches are closed segments."""

    def __init__(self, path: Path, keys: list[list[bytes]], **properties: str) -> None:
        self.path = path
        self.hosted = [Hosted(path, index=index, **COMPACTED) for index in range(len(keys))]
        for one, written in zip(self.hosted, keys):
            one.lead()
            for key in written:
                write(one, key)
        maintenance = NotedMaintenance()
        self.deleted = maintenance.scheduled
        self.partitions = NotedPartitions(self.hosted)
        self.disk = Disk()
        self.background = BackgroundTasks()
        config = {"log.cleaner.backoff.ms": str(BACKOFF_MS)} | properties
        node = node_of(config, clock=loop_clock(), disk=self.disk, background=self.background)
        self.cleaner = LogCleaner(node, self.partitions, maintenance, lambda one: False)

    def checkpoint(self, folder: str = "") -> dict[int, int]:
        """Returns the clean offset of each partition that the file has."""
        offsets = find_offsets(str(self.path / folder), CLEANER_OFFSETS).offsets
        return {index: offset for (topic, index), offset in offsets.items() if topic == TOPIC}


def write(hosted: Hosted, key: bytes) -> None:
    records = encode_batch([Record(0, NOW_MS, key, b"v" * 30)])
    assert not hosted.append(bytearray(records), NOW_MS).error


def keys_of(hosted: Hosted) -> list[bytes]:
    found, offset = [], 0
    while offset < hosted.log_end_offset:
        read = hosted.log.read(offset, 1 << 20)
        data = read.bytes()
        for position, header in iter_headers(data):
            found += [record.key or b"" for record in decode_batch(data, position, header)]
        offset = read.next_offset
    return found


def test_log_is_compacted_and_its_clean_offset_is_in_the_checkpoint(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"a", b"b", b"a", b"end"]])
        [hosted] = harness.hosted
        assert not harness.cleaner.has_cleaned(hosted)
        assert await harness.cleaner.clean_one()
        assert keys_of(hosted) == [b"b", b"a", b"end"]
        assert harness.checkpoint() == {0: 4}, "all but the active segment"
        assert harness.cleaner.has_cleaned(hosted)
        assert not harness.cleaner.works_on(hosted)
        assert harness.deleted == [hosted]
        assert not await harness.cleaner.clean_one(), "nothing is dirty"

    simulated(story)


def test_log_with_the_greatest_share_of_new_records_comes_first(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a"] * 10, [b"b"] * 10, [b"c"]])
        for _ in range(2):
            assert await harness.cleaner.clean_one()
        write(harness.hosted[0], b"a")
        for _ in range(8):
            write(harness.hosted[1], b"b")
        cleaned: list[int] = []
        clean = harness.cleaner._clean

        async def noting(hosted: Any, dirt: Any) -> bool:
            assert harness.cleaner.works_on(hosted)
            cleaned.append(hosted.index)
            return await clean(hosted, dirt)

        harness.cleaner._clean = noting  # type: ignore[method-assign]
        while await harness.cleaner.clean_one():
            pass
        assert cleaned == [1, 0]

    simulated(story)


@pytest.mark.parametrize("state", ["not compacted", "offline", "removed"])
def test_log_that_is_not_to_be_compacted_is_left(state: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"a", b"end"]])
        [hosted] = harness.hosted
        if state == "not compacted":
            hosted.log.config = Hosted(tmp_path / "other").log.config
        hosted.offline, hosted.is_removed = state == "offline", state == "removed"
        assert not await harness.cleaner.clean_one()
        assert harness.checkpoint() == {}

    simulated(story)


@pytest.mark.parametrize("state", ["offline", "removed"])
def test_log_that_goes_while_others_are_looked_at_is_left(state: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"a", b"end"], [b"a", b"b", b"c", b"end"]])
        first, second = harness.hosted

        def go() -> None:
            first.offline, first.is_removed = state == "offline", state == "removed"

        asyncio.get_running_loop().call_soon(go)
        assert await harness.cleaner.clean_one()
        assert harness.checkpoint() == {1: 3} and keys_of(first) == [b"a", b"a", b"end"]
        second.log.config = first.log.config = Hosted(tmp_path / "other").log.config
        assert not await harness.cleaner.clean_one()

    simulated(story)


def test_directory_that_fails_while_its_logs_are_looked_at_does_not_hold_up_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = dirty_range.look

    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"a", b"end"], [b"b", b"b", b"end"]])
        first, second = harness.hosted
        failure = LogDirectoryFailure(str(tmp_path), "reading", OSError(5, "broken"))

        def look(log: Any, *rest: Any) -> Any:
            if log is first.log:
                raise failure
            return original(log, *rest)

        monkeypatch.setattr(dirty_range, "look", look)
        assert await harness.cleaner.clean_one()
        assert first.failures == [failure] and second.failures == []
        assert keys_of(second) == [b"b", b"end"] and keys_of(first) == [b"a", b"a", b"end"]

    simulated(story)


@pytest.mark.parametrize("state", ["offline", "removed", "truncated"])
def test_cleaning_of_a_log_that_is_gone_or_cut_meanwhile_changes_nothing(state: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"a", b"a", b"end"]])
        [hosted] = harness.hosted

        def change() -> None:
            hosted.offline, hosted.is_removed = state == "offline", state == "removed"
            if state == "truncated":
                hosted.log.truncate_to(1, NOW_MS)

        harness.disk.after = change
        assert await harness.cleaner.clean_one(), "another log may be dirty"
        assert keys_of(hosted)[:1] == [b"a"]
        assert hosted.log_end_offset == (1 if state == "truncated" else 4)
        assert harness.checkpoint() == {}
        assert harness.deleted == []

    simulated(story)


def test_each_cleaned_segment_is_swapped_in_in_a_turn_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"b", b"c", b"end"]])
        [hosted] = harness.hosted
        loop, turn = asyncio.get_running_loop(), [0]
        swapped: list[tuple[int, int]] = []
        replace = hosted.log.replace

        def count() -> None:
            turn[0] += 1
            loop.call_soon(count)

        def noting(base_offset: int, *rest: Any) -> bool:
            swapped.append((base_offset, turn[0]))
            return replace(base_offset, *rest)

        hosted.log = Delegating(hosted.log, replace=noting)  # type: ignore[assignment]
        count()
        assert await harness.cleaner.clean_one()
        assert [offset for offset, _ in swapped] == [0, 1, 2]
        assert len({number for _, number in swapped}) == 3
        assert keys_of(hosted) == [b"a", b"b", b"c", b"end"] and harness.checkpoint() == {0: 3}

    simulated(story)


class Delegating:
    """A log, of which a test replaces a method."""

    def __init__(self, log: Any, **replaced: Any) -> None:
        self._log, self._replaced = log, replaced

    def __getattr__(self, name: str) -> Any:
        return self._replaced.get(name) or getattr(self._log, name)


@pytest.mark.parametrize("state", ["offline", "removed", "truncated"])
def test_log_that_is_gone_or_cut_between_two_swaps_keeps_its_other_segments(state: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"b", b"c", b"end"]])
        [hosted] = harness.hosted
        inodes = inodes_of(hosted)

        def change() -> None:
            hosted.offline, hosted.is_removed = state == "offline", state == "removed"
            if state == "truncated":
                hosted.log.truncate_to(2, NOW_MS)

        harness.disk.after = lambda: asyncio.get_running_loop().call_soon(change)
        assert await harness.cleaner.clean_one()
        harness.disk.after = lambda: None
        left = inodes_of(hosted)
        assert left[0] != inodes[0] and left[1] == inodes[1], "only the first was swapped"
        assert harness.checkpoint() == {}

    simulated(story)
    assert not list(tmp_path.glob("*/*.cleaned"))


def inodes_of(hosted: Hosted) -> list[int]:
    return [Path(one.path).stat().st_ino for one in hosted.log.segments]


@pytest.mark.parametrize("bytes_per_s", [1, 100])
def test_cleaning_keeps_to_the_limit_of_reads_and_writes(bytes_per_s: int, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a"] * 6], **{"log.cleaner.io.max.bytes.per.second": str(bytes_per_s)})
        loop = asyncio.get_running_loop()
        began, really_began = loop.time(), time.monotonic()
        one = harness.hosted[0].log.segments[0].size
        assert await harness.cleaner.clean_one()
        read, written = 5 * one, one
        paused_s, least_s = loop.time() - began, (read + written) / bytes_per_s
        took_s = time.monotonic() - really_began  # the work is done in real time, and makes the pause shorter
        assert least_s * 0.8 - took_s <= paused_s <= least_s * 1.2

    simulated(story)


def test_cleaning_within_the_limit_does_not_pause(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a"] * 6])
        began = asyncio.get_running_loop().time()
        assert await harness.cleaner.clean_one()
        assert asyncio.get_running_loop().time() == pytest.approx(began, abs=0.1)

    simulated(story)


def test_part_of_a_log_is_cleaned_when_the_map_is_full_and_the_rest_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_map, "BYTES_PER_KEY", (2 << 20) // 25)

    async def story() -> None:
        keys = [b"%d" % number for number in range(40)]
        harness = Cleaning(tmp_path, [keys + keys], **{"log.cleaner.dedupe.buffer.size": str(2 << 20)})
        ends = []
        while await harness.cleaner.clean_one():
            ends.append(harness.checkpoint()[0])
            assert len(ends) < 10
        assert ends == sorted(set(ends)), "each cleaning goes on behind the one before"
        assert ends[0] < 79 == ends[-1]

    simulated(story)


@pytest.mark.parametrize(("is_removed", "noted"), [(False, 1), (True, 0)])
def test_failing_disk_takes_the_directory_offline_unless_the_partition_is_removed(
    is_removed: bool, noted: int, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"a", b"end"]])
        [hosted] = harness.hosted

        def fail() -> None:
            hosted.is_removed = is_removed
            raise LogDirectoryFailure(str(tmp_path), "reading", OSError(5, "broken"))

        harness.disk.before = fail
        assert await harness.cleaner.clean_one()
        assert len(hosted.failures) == noted
        assert not harness.cleaner.works_on(hosted)

    simulated(story)


def test_full_disk_leaves_no_files_of_the_cleaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int, data: Any, position: int) -> None:
        raise OSError(28, "full")

    monkeypatch.setattr(cleaning_job, "write_fully", fail)

    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"b", b"end"]])
        [hosted] = harness.hosted
        assert await harness.cleaner.clean_one()
        [failure] = hosted.failures
        assert isinstance(failure, LogDirectoryFailure) and "compacting" in str(failure)

    simulated(story)
    assert not list(tmp_path.glob("*/*.cleaned"))


# ---- the job


class JobSegment(NamedTuple):
    base_offset: int


class Job:
    def __init__(self, end_offset: int, *bases: int) -> None:
        self.end_offset = end_offset
        self.segments = [JobSegment(base) for base in bases]

    def run(self) -> str:
        return "on the pool"


@pytest.mark.parametrize(
    ("total_bytes", "end_offset", "bases", "where"),
    [
        (SMALL_JOB_BYTES, 10, (0, 5), "on the pool"),
        (SMALL_JOB_BYTES + 1, 10, (0, 5), "in a process"),
        (1, SMALL_JOB_RECORDS + 100, (100, 200), "on the pool"),
        (1, SMALL_JOB_RECORDS + 101, (100, 200), "in a process"),
        (1, SMALL_JOB_RECORDS + 101, (), "on the pool"),
    ],
)
async def test_job_with_many_bytes_or_offsets_gets_a_process(
    total_bytes: int, end_offset: int, bases: tuple[int, ...], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def in_process(job: Any, disk: Any) -> str:
        return "in a process"

    monkeypatch.setattr(compaction_process, "run_in_process", in_process)
    job: Any = Job(end_offset, *bases)
    disk: Any = Disk()
    assert await run_job(job, total_bytes, disk) == where


# ---- moves to another directory


def moved(harness: Cleaning, hosted: Hosted, to: str) -> None:
    source = hosted.directory.path
    (harness.path / to).mkdir(exist_ok=True)
    hosted.directory = LogDirectory(harness.path / to)
    harness.cleaner.moved(hosted, source)


def test_clean_offset_moves_with_the_log_and_is_written_at_the_next_look(tmp_path: Path) -> None:
    """Otherwise the offsets that the compaction removed would count as lost where the topic is no longer compacted."""

    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"a", b"end"], [b"b", b"b", b"end"]])
        for _ in range(2):
            assert await harness.cleaner.clean_one()
        assert harness.checkpoint() == {0: 2, 1: 2}
        moved(harness, harness.hosted[1], "other")
        assert harness.cleaner.has_cleaned(harness.hosted[1])
        assert not await harness.cleaner.clean_one(), "it is still clean"
        assert harness.checkpoint() == {0: 2}
        assert harness.checkpoint("other") == {1: 2}

    simulated(story)


def test_log_that_was_never_cleaned_moves_without_a_checkpoint(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a"]])
        moved(harness, harness.hosted[0], "other")
        assert not harness.cleaner.has_cleaned(harness.hosted[0])
        await harness.cleaner.clean_one()
        assert not (tmp_path / "other" / CLEANER_OFFSETS).exists()

    simulated(story)


def test_stop_writes_the_clean_offset_of_a_log_that_has_just_moved(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"a", b"end"]])
        harness.cleaner.start()
        await after_ms(BACKOFF_MS + 10)
        assert harness.checkpoint() == {0: 2}
        moved(harness, harness.hosted[0], "other")
        await harness.cleaner.stop()
        assert (harness.checkpoint(), harness.checkpoint("other")) == ({}, {0: 2})

    simulated(story)


def test_directory_that_fails_as_a_moved_offset_is_written_goes_offline(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"a", b"end"]])
        assert await harness.cleaner.clean_one()
        moved(harness, harness.hosted[0], "other")
        failure = LogDirectoryFailure("other", "writing", OSError(5, "broken"))

        def fail() -> None:
            harness.disk.before = lambda: None
            raise failure

        harness.disk.before = fail
        assert not await harness.cleaner.clean_one()
        assert harness.partitions.failures == [failure]

    simulated(story)


def test_cleaner_that_is_switched_off_does_not_start(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"a", b"end"]], **{"log.cleaner.enable": "false"})
        harness.cleaner.start()
        await after_ms(10 * BACKOFF_MS)
        assert harness.checkpoint() == {}
        await harness.cleaner.stop()
        await turns()

    simulated(story)


def test_poisoned_batches_of_the_cleaned_part_are_replaced_by_what_was_met(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Cleaning(tmp_path, [[b"a", b"a", b"end"]])
        [hosted] = harness.hosted
        harness.cleaner.note_poisoned(hosted, [PoisonedBatch(offset, offset, "rot") for offset in (0, 1, 7)], 0, 9)
        assert sorted(harness.cleaner.poisoned[TOPIC, 0]) == [0, 1, 7]
        assert await harness.cleaner.clean_one()
        assert sorted(harness.cleaner.poisoned[TOPIC, 0]) == [7], "the part from the start of the log on was cleaned"

    simulated(story)
