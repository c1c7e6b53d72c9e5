"""Truncations of a follower's log in a directory with checkpoints and notes: a crash at each file change, and at random."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.protocol.messages.fetch import PartitionData
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.errors import OldMessageFormat
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.server.replicas.followed_partition import FollowedPartition
from odradek.storage import claims as claims_module
from odradek.storage.directory import LogDirectory, checkpoints_of
from odradek.storage.files.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, find_offsets
from odradek.storage.files.clean_replicas import QUIET_NS
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.log.config import LogConfig
from odradek.storage.log.epochs import UNDEFINED_EPOCH
from odradek.storage.log.retention import delete_old_segments

from tests.harness.examples import examples
from tests.harness.patches import patch_for_this_thread
from tests.server.harness.hosted import NOW_MS, TOPIC, TOPIC_ID, Disk, Hosted, batch, truncations
from tests.server.harness.virtual_time import after_ms, simulated, turns
from tests.storage.formatted import format_directory

LEADER, FOLLOWER = 0, 3
KEY = (TOPIC, 0)
CHECKPOINTS = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, retention_ms=-1, file_delete_delay_ms=0)
TIERED = dataclasses.replace(SMALL, remote_storage=True)
COMPACTED = dataclasses.replace(SMALL, compact=True, delete=False)
CHANGES = ("rename", "replace", "unlink", "truncate", "ftruncate", "mkdir")
#: No crash.
NEVER = 1 << 30


class Crash(BaseException):
    """The end of the process: no code catches it, and nothing more is written."""


class Changes:
    """Counts the changes of files, and crashes before number `crash_at`; a write is torn then."""

    def __init__(self, crash_at: int = NEVER) -> None:
        self.crash_at = crash_at
        self.count = 0

    def _next(self) -> None:
        if self.count >= self.crash_at:
            raise Crash
        self.count += 1

    @contextmanager
    def counted(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            pwrite, opened = os.pwrite, os.open
            for name in CHANGES:
                patch_for_this_thread(patch, os, name, self._counted(getattr(os, name)))

            def write(fd: int, data: Any, position: int) -> int:
                if self.count == self.crash_at:
                    pwrite(fd, memoryview(data).cast("B")[: len(data) // 2], position)
                self._next()
                return pwrite(fd, data, position)

            def open_file(path: Any, flags: int, *mode: int) -> int:
                if flags & (os.O_CREAT | os.O_TRUNC):
                    self._next()
                return opened(path, flags, *mode)

            patch_for_this_thread(patch, os, "pwrite", write)
            patch_for_this_thread(patch, os, "open", open_file)
            yield

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self._next()
            return function(*arguments, **options)

        return call


class Follower:
    """A broker with one replica, which it follows, from a start to a crash or a stop. `values`: by offset, what the log has
    to have; `at_least`: the end below which nothing may be missing.
    """

    def __init__(self, path: Path, config: LogConfig = SMALL) -> None:
        self.path = path
        self.config = config
        path.mkdir(exist_ok=True)
        format_directory(path)
        self.values: dict[int, bytes] = {}
        self.start = self.end = 0
        #: The values that a truncation which a crash interrupts leaves, or does not.
        self.given_up: dict[int, bytes] = {}
        self.epoch = 0
        self.begin()

    # ---- lives

    def begin(self) -> None:
        self.directory = LogDirectory.open(self.path)
        replicas = [(one, TOPIC_ID) for one in self.directory.replicas()]
        log = None
        for (replica, _), seen in zip(replicas, self.directory.look_at(replicas), strict=True):
            if seen is not None and self.directory._in_use:
                log = self.directory.open_seen(replica, self.config, seen, now_ms=NOW_MS, is_replicated=True, jitter=0)
        if log is None:
            noted = self.directory.unchanged(replicas[0][0]) if replicas else None
            log = self.directory.open_log(*KEY, self.config, now_ms=NOW_MS, is_replicated=True, noted=noted)
        high_watermark = self.directory.checkpoints.high_watermarks.get(KEY, 0)
        self.directory.forget_checkpoints()
        self.check(log)
        self.hosted = Hosted(self.path.with_suffix(".unused"), FOLLOWER)
        self.hosted.log, self.hosted.directory = log, self.directory
        role = self.hosted.role
        known = max(log.local_log_start_offset, min(high_watermark, log.log_end_offset))
        role.log_end_offset, role.high_watermark = log.log_end_offset, known
        self.truncations = truncations(Disk())
        self.follow()

    def check(self, log: Any) -> None:
        """The log has each record that was appended and not cut, and none that looks damaged."""
        assert list(log.damage) == [], log.opening_notes
        assert log.log_start_offset <= log.log_end_offset
        records, offset, newest = {}, log.local_log_start_offset, None
        while offset < log.log_end_offset:
            found = log.read(offset, 1 << 20)
            assert found.size, f"nothing at {offset}, the log has {log}"
            for position, header in iter_headers(found.bytes()):
                for record in decode_batch(found.bytes(), position):
                    if record.offset >= log.local_log_start_offset:
                        records[record.offset] = record.value
                if header.producer_id >= 0:
                    newest = header.producer_epoch, header.last_offset
                epoch = log.epochs.epoch_for_offset(header.base_offset)
                assert epoch in (header.leader_epoch, UNDEFINED_EPOCH)
                assert epoch != UNDEFINED_EPOCH or header.base_offset < log.epochs.entries()[0][1]
            offset = found.next_offset
        known = [(one.epoch, one.last_data_offset) for one in log.producers.by_id.values()]
        assert known == [newest] if newest is not None else all(end < offset for _, end in known)
        for name in CHECKPOINTS:
            claimed = find_offsets(str(self.path), name).offsets.get(KEY, 0)
            assert claimed <= log.log_end_offset, f"{name} claims {claimed}, the log ends at {log.log_end_offset}"
        possible = self.values | self.given_up if log.log_end_offset > self.end else self.values
        within = range(log.local_log_start_offset, log.log_end_offset)
        assert records == {offset: value for offset, value in possible.items() if offset in within}
        assert log.log_end_offset >= self.end
        # A crash may bring deleted records back.
        self.values = {one: value for one, value in possible.items() if one < log.log_end_offset}
        self.given_up = {}
        self.start, self.end = log.log_start_offset, log.log_end_offset

    def follow(self) -> None:
        self.epoch += 1
        self.hosted.follow_leader(LEADER, epoch=self.epoch)
        self.followed = FollowedPartition(self.hosted, NOW_MS, self.truncations)

    def crash(self) -> None:
        """The process ends: the files are as they are."""
        self.directory.close()
        self.begin()

    def stop(self) -> None:
        log = self.hosted.log
        self.directory.close_logs([log], NOW_MS)
        self.write_checkpoints()
        self.directory.mark_clean_shutdown(17, self.directory.notes_of([(log, TOPIC_ID)]))
        self.crash()

    # ---- operations

    def append(self, count: int = 1, *, producer: bool = False, gap: int = 0) -> None:
        """`gap`: offsets before the batch that the leader's compaction has left without records."""
        log, first = self.hosted.log, self.end + gap
        values = [b"%d of epoch %d" % (first + number, self.epoch) for number in range(count)]
        records = [Record(first + number, NOW_MS + first, None, value) for number, value in enumerate(values)]
        ids: Any = {"producer_id": 7, "producer_epoch": self.epoch, "base_sequence": 0} if producer else {}
        batch = encode_batch(records, base_offset=first, leader_epoch=self.epoch, **ids)
        self.given_up |= {first + number: value for number, value in enumerate(values)}  # a crash may come at once
        log.append(batch, None, NOW_MS)
        self.hosted.role.appended(log.log_end_offset, NOW_MS)
        self.values |= {first + number: value for number, value in enumerate(values)}
        self.end = log.log_end_offset

    def commit(self) -> None:
        self.hosted.follow(self.end, 0)

    def flush(self) -> None:
        self.hosted.log.flush(NOW_MS)

    def write_checkpoints(self) -> None:
        claims, found = self.directory.claims, checkpoints_of([self.hosted.log])
        claims.write(RECOVERY_POINTS, claims.bounded(found.recovery_points), claims.age)
        claims.write(LOG_START_OFFSETS, claims.bounded(found.log_start_offsets), claims.age)
        claims.write(HIGH_WATERMARKS, claims.bounded({KEY: self.hosted.high_watermark}), claims.age)

    def note(self) -> None:
        self.directory.keeps_notes = True
        noted = self.directory.note_idle(self.hosted.log, TOPIC_ID, time.time_ns() + 10 * QUIET_NS)
        self.directory.add_notes([noted] if noted is not None else [])

    def delete_records(self, offset: int) -> None:
        start = min(offset, self.hosted.high_watermark)
        if start > self.start:
            self.hosted.advance_log_start_offset(start)

    def delete_segments(self) -> None:
        log = self.hosted.log
        delete_old_segments(log, NOW_MS, self.hosted.high_watermark)
        if self.config.remote_storage and len(log.segments) > 2:
            log.remove_first(1, NOW_MS)  # it is copied
        self.hosted.log.delete_scheduled(NOW_MS)

    async def truncate(self, offset: int) -> None:
        """Another leader has other records from `offset` on, or from within a batch, which goes whole."""
        end = self.hosted.open_log().end_before(offset)
        self._give_up(end, min(end, self.hosted.log.log_start_offset))
        await self._cut(lambda: self.followed.truncate(offset, NOW_MS))

    async def start_over(self, offset: int) -> None:
        self._give_up(0, 0)
        await self._cut(lambda: self.followed.start_over(offset, NOW_MS))

    async def begin_after_remote(self, offset: int) -> None:
        """The leader has the records before `offset` in a remote store only."""
        self._give_up(0, 0)
        log, epochs = self.hosted.log, [*self.hosted.log.epochs.entries(), (self.epoch + 1, offset - 1)]
        begin = partial(log.begin_after_remote, offset, NOW_MS, log.log_start_offset, epochs, [])

        def cut() -> None:
            begin()
            self.hosted.truncated()

        await self._cut(lambda: self.truncations.submit(self.hosted, 0, lambda: True, cut))

    def _give_up(self, offset: int, start: int) -> None:
        self.given_up |= self.values
        self.values = {one: value for one, value in self.values.items() if one < offset}
        self.end = min(self.end, offset)

    async def _cut(self, cut: Callable[[], None]) -> None:
        self.follow()
        cut()
        if (task := self.truncations._task) is not None:
            await asyncio.wait([task])
            task.result()
        assert not self.followed.is_truncating and not self.directory.claims._limits
        self.given_up = {}
        self.end = self.hosted.log.log_end_offset
        for name in CHECKPOINTS:
            assert find_offsets(str(self.path), name).offsets.get(KEY, 0) <= self.end


async def until_crash(follower: Follower, changes: Changes, work: Callable[[], Any]) -> bool:
    """Returns whether the work crashed."""
    with changes.counted():
        try:
            await work()
        except Crash:
            return True
    return False


def have_history(follower: Follower) -> None:
    """Forty records of three epochs in several segments: flushed, committed, noted, and in the checkpoints."""
    for number in range(20):
        if number in (5, 10, 18):
            follower.follow()
        follower.append(2, producer=number % 3 == 0)
    follower.commit()
    follower.delete_records(4)
    follower.flush()
    follower.write_checkpoints()
    assert len(follower.hosted.log.segments) > 3 and len(follower.hosted.log._snapshots) > 2
    follower.note()


#: The offset of a truncation: within the last epoch, at its start, in an earlier segment, at and below the log's start.
@pytest.mark.slow
@pytest.mark.parametrize("cut", [38, 36, 12, 2, -1])
def test_after_a_crash_at_any_change_of_a_truncation_no_claim_outlives_its_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """With -1, the log begins anew at offset 60."""

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda fd: None)

    async def story() -> None:
        crash_at, crashed = 0, True
        while crashed:
            path = tmp_path / f"{crash_at}"
            follower, changes = Follower(path), Changes(crash_at)
            have_history(follower)

            async def work(follower: Follower = follower) -> None:
                await (follower.truncate(cut) if cut >= 0 else follower.start_over(60))
                for number in range(12):
                    follower.append(1)
                    if number == 4:
                        follower.flush()
                    if number == 8:
                        follower.commit()
                        follower.write_checkpoints()

            crashed = await until_crash(follower, changes, work)
            follower.crash()
            follower.append(3)
            follower.crash()
            follower.directory.close()
            shutil.rmtree(path)
            crash_at += 1
        assert crash_at > 30

    simulated(story)


def test_log_cut_in_a_gap_of_compaction_ends_with_the_last_batch_before_it(tmp_path: Path) -> None:
    async def story() -> None:
        follower = Follower(tmp_path / "data", COMPACTED)
        follower.append(5)
        follower.append(3, gap=5)
        follower.commit()
        follower.flush()
        follower.write_checkpoints()
        await follower.truncate(8)
        assert follower.end == 5
        follower.commit()
        follower.write_checkpoints()
        follower.crash()  # checks that nothing is missing, or looks damaged
        assert follower.end == 5
        follower.append()
        follower.crash()
        follower.directory.close()

    simulated(story)


# ---- random histories

OPERATIONS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("append after a gap"), st.integers(1, 4), st.integers(1, 5)),
    st.tuples(st.just("truncate"), st.floats(0, 1)),
    st.tuples(st.just("truncate within"), st.floats(0, 1)),
    st.tuples(st.just("crash"), st.integers(0, 40)),
    st.tuples(st.just("start over"), st.integers(0, 9)),
    st.tuples(st.just("begin after remote"), st.integers(0, 9)),
    st.tuples(st.just("delete records"), st.floats(0, 1)),
    st.sampled_from([(one,) for one in ("commit", "flush", "write checkpoints", "note", "stop", "delete segments")]),
)


class History:
    """The operations of one random history on one follower."""

    def __init__(self, path: Path, config: LogConfig) -> None:
        self.follower = Follower(path, config)
        self.changes = Changes()

    async def run(self, operations: list[tuple[Any, ...]]) -> None:
        for name, *arguments in operations:
            if name == "crash":
                self.changes = Changes(*arguments)  # after so many changes from here on
            elif name == "stop":
                self.changes = Changes()
                self.follower.stop()
            elif await until_crash(self.follower, self.changes, partial(self._do, name, *arguments)):
                self.changes = Changes()
                self.follower.crash()
        self.follower.crash()
        self.follower.append()
        self.follower.crash()
        self.follower.directory.close()

    async def _do(self, name: str, *arguments: Any) -> None:
        follower = self.follower
        starts = [one for one in self._batches() if one >= follower.hosted.log.log_start_offset] or [follower.end]
        match name:
            case "append":
                count, producer = arguments
                follower.append(count, producer=producer)
            case "append after a gap":
                count, gap = arguments
                follower.append(count, gap=gap if follower.config.compact else 0)
            case "truncate within":
                await follower.truncate(int(follower.start + arguments[0] * (follower.end - follower.start)))
            case "truncate":
                await follower.truncate(starts[int(arguments[0] * (len(starts) - 1))])
            case "start over":
                await follower.start_over(follower.end + arguments[0])
            case "begin after remote":
                if follower.config.remote_storage:
                    await follower.begin_after_remote(follower.end + 1 + arguments[0])
            case "delete records":
                follower.delete_records(int(follower.start + arguments[0] * (follower.end - follower.start)))
            case _:
                getattr(follower, name.replace(" ", "_"))()

    def _batches(self) -> list[int]:
        """Returns the base offsets of all batches: a log is cut between two of them."""
        log, found = self.follower.hosted.log, []
        offset = log.local_log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, 1 << 20)
            found += [header.base_offset for _, header in iter_headers(read.bytes())]
            offset = read.next_offset
        return found


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("config", [SMALL, COMPACTED, TIERED], ids=["deleted", "compacted", "tiered"])
@given(operations=st.lists(OPERATIONS, min_size=5, max_size=40))
def test_log_has_all_that_was_appended_and_not_cut_after_any_history(
    tmp_path_factory: pytest.TempPathFactory, config: LogConfig, operations: list[tuple[Any, ...]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, lambda fd: None)
        path = tmp_path_factory.mktemp("history")
        simulated(lambda: History(path / "data", config).run(operations))
        shutil.rmtree(path)


# ---- the wait for the disk


class Broker:
    """Followers in one directory whose checkpoint claims 20 records of each, with a disk that the test holds."""

    def __init__(self, path: Path, count: int = 1) -> None:
        self.disk = Disk()
        self.truncations = truncations(self.disk)
        self.hosted = [Hosted(path, FOLLOWER, index=index) for index in range(count)]
        self.directory = LogDirectory(path)
        for hosted in self.hosted:
            hosted.directory = self.directory
            hosted.follow_leader(LEADER)
            hosted.log.append(batch(20), None, NOW_MS)
            hosted.log.append(batch(20, offset=20), None, NOW_MS)
            hosted.role.appended(40, NOW_MS)
        self.directory.claims.write(HIGH_WATERMARKS, {(TOPIC, hosted.index): 40 for hosted in self.hosted})

    def truncate(self, hosted: Hosted, offset: int = 20) -> FollowedPartition:
        followed = FollowedPartition(hosted, NOW_MS, self.truncations)
        followed.truncate(offset, NOW_MS)
        return followed

    @property
    def claimed(self) -> set[int]:
        return set(find_offsets(self.directory.path, HIGH_WATERMARKS).offsets.values())


def test_log_is_cut_at_once_where_the_disk_claims_nothing_more(tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        (hosted,) = broker.hosted
        broker.directory.claims.write(HIGH_WATERMARKS, {KEY: 20})
        followed = broker.truncate(hosted)
        assert hosted.log_end_offset == 20 and not followed.is_truncating and broker.disk.runs == 0
        assert not broker.directory.claims._limits

    simulated(story)


def test_many_logs_wait_for_one_write_of_the_disk(tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path, 100)
        broker.disk.ready.clear()
        waiting = [broker.truncate(hosted) for hosted in broker.hosted]
        await turns()
        assert {hosted.log_end_offset for hosted in broker.hosted} == {40} and all(one.is_truncating for one in waiting)
        broker.disk.ready.set()
        await after_ms(10)
        assert {hosted.log_end_offset for hosted in broker.hosted} == {20} and broker.claimed == {20}
        assert broker.disk.runs == 1 and not any(one.is_truncating for one in waiting)

    simulated(story)


def test_follower_writes_no_response_while_its_log_waits_to_be_cut(tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        (hosted,) = broker.hosted
        broker.disk.ready.clear()
        followed = broker.truncate(hosted)
        records = bytes(batch(offset=40))
        assert followed.take(PartitionData(0, high_watermark=41, records=records), NOW_MS) == 0
        assert hosted.log_end_offset == 40

    simulated(story)


def test_log_is_not_cut_for_a_leader_of_a_former_epoch(tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        (hosted,) = broker.hosted
        broker.disk.ready.clear()
        broker.truncate(hosted)
        await turns()
        hosted.lead(LEADER, epoch=2, partition_epoch=2)
        broker.disk.ready.set()
        await after_ms(10)
        assert hosted.log_end_offset == 40 and broker.claimed == {20}
        assert not broker.directory.claims._limits, "the next checkpoint has the high watermark again"

    simulated(story)


def test_second_truncation_waits_for_the_first_one(tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        (hosted,) = broker.hosted
        broker.disk.ready.clear()
        broker.truncate(hosted)
        await turns()
        hosted.follow_leader(LEADER, epoch=2)
        followed = broker.truncate(hosted, 0)
        await turns()
        assert hosted.log_end_offset == 40
        broker.disk.ready.set()
        await after_ms(10)
        assert hosted.log_end_offset == 0 and broker.claimed == {0} and not followed.is_truncating

    simulated(story)


def test_claims_are_limited_by_the_cut_itself_where_its_work_goes_on(tmp_path: Path) -> None:
    """A follower begins behind a remote part once its leader and the store have responded."""

    async def story() -> None:
        broker = Broker(tmp_path, 2)
        claims = broker.directory.claims
        claims.write(HIGH_WATERMARKS, {(TOPIC, 0): 40, (TOPIC, 1): 20})
        for hosted in broker.hosted:
            key = (TOPIC, hosted.index)
            broker.truncations.submit(hosted, 20, lambda: True, lambda key=key: claims.limit(key, 0))
        await after_ms(10)
        assert claims._limits == {(TOPIC, 0): 0, (TOPIC, 1): 0}

    simulated(story)


def test_truncation_that_fails_keeps_its_claims_lowered_and_stops_no_other(tmp_path: Path) -> None:
    """The files of two logs begin with records of an old format. Those of the last one need no write of the disk."""

    async def story() -> None:
        broker = Broker(tmp_path, 3)
        broker.directory.claims.write(HIGH_WATERMARKS, {(TOPIC, 0): 40, (TOPIC, 1): 40, (TOPIC, 2): 0})
        failing, sound, clear = broker.hosted
        files = [Path(one.log.active.path) for one in (failing, clear)]
        sound_files = [one.read_bytes() for one in files]
        for file, content in zip(files, sound_files, strict=True):
            file.write_bytes(content[:16] + b"\x01" + content[17:])
        broker.truncate(failing)
        broker.truncate(sound)
        await after_ms(10)
        assert failing.log_end_offset == 40 and sound.log_end_offset == 20
        with pytest.raises(OldMessageFormat):
            broker.truncate(clear)
        assert set(broker.directory.claims._limits) == {(TOPIC, 0), (TOPIC, 2)}
        assert broker.directory.claims.bounded({(TOPIC, 0): 40}) == {(TOPIC, 0): 0}
        for file, content in zip(files, sound_files, strict=True):
            file.write_bytes(content)
        broker.truncate(failing)
        broker.truncate(clear)
        await after_ms(10)
        assert {hosted.log_end_offset for hosted in broker.hosted} == {20} and not broker.directory.claims._limits
        assert not broker.truncations._unfinished

    simulated(story)


def test_full_disk_takes_the_replica_offline_and_cuts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        (hosted,) = broker.hosted

        def fails(*arguments: object) -> None:
            hosted.offline = True
            raise LogDirectoryFailure(str(tmp_path), "writing", OSError())

        monkeypatch.setattr(claims_module, "write_offsets", fails)
        broker.truncate(hosted)
        await after_ms(10)
        assert len(hosted.failures) == 1 and hosted.log_end_offset == 40

    simulated(story)
