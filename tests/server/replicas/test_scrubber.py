"""The scrubber over real logs with damaged files: what it notes, what it heals, at which rate, and what it leaves alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.records.errors import CorruptBatch
from odradek.server.replicas import scrubber as scrubber_module
from odradek.server.replicas.scrubber import DOUBT_INTERVAL_S, FIRST_ROUND_DELAY_S, MOST_LINES, Scrubber
from odradek.server.runtime.background_tasks import BackgroundTasks
from odradek.server.runtime.damage_counters import DamageCounters
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.log.log import Log
from odradek.storage.repair.verification import Job, SegmentVerifier
from odradek.storage.segments.damage import DamagedRange, OffsetDamaged, SegmentSuspected
from odradek.storage.segments.index import TimeIndex

from tests.server.harness.hosted import NOW_MS, Hosted, batch
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_cleaner import NotedCleaner
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

ONE = len(batch())


class Thread:
    """The pool of one thread: work is done at once, after what the test has to do before."""

    def __init__(self) -> None:
        self.before: Callable[[], object] = lambda: None
        self.steps = 0
        self.closed = 0

    async def run(self, work: Callable[[], Any]) -> Any:
        self.before()
        self.steps += 1
        await asyncio.sleep(0)
        return work()

    def run_then(self, work: Callable[[], Any], done: Callable[[Any], object]) -> None:
        self.closed += 1
        done(work())

    async def done(self) -> None:
        pass


class Scrubbing:
    """A broker with partitions of three segments, each with one batch; the last segment is active."""

    def __init__(self, path: Path, count: int = 1, *, rate: int = 1 << 30, interval_ms: int = 1_000_000) -> None:
        self.hosted = [Hosted(path, index=index, segment_bytes=ONE) for index in range(count)]
        for one in self.hosted:
            one.lead()
            for _ in range(3):
                one.append(batch(epoch=-1), NOW_MS)
        self.healed: list[Any] = []
        self.thread = Thread()
        self.background = BackgroundTasks()
        self.counters = DamageCounters(asyncio.get_running_loop().time)
        self.cleaner = NotedCleaner()
        config = {"odradek.scrub.bytes.per.second": str(rate), "odradek.scrub.interval.ms": str(interval_ms)}
        node = node_of(config, clock=loop_clock(), damage=self.counters, scrub=self.thread, background=self.background)
        self.scrubber = Scrubber(node, NotedPartitions(self.hosted), self.cleaner, self.healed.append)

    def damage(self, base_offset: int, *, index: int = 0, at: int = -1) -> None:
        """Flips a byte of the segment's only batch."""
        path = Path(self.hosted[index].log.segment_of(base_offset).path)
        data = bytearray(path.read_bytes())
        data[at] ^= 0xFF
        path.write_bytes(data)

    def damaged(self, index: int = 0) -> list[tuple[int, int]]:
        return [(one.first_offset, one.next_offset) for one in self.hosted[index].log.damage]


# ---- rounds


def test_round_counts_what_it_verifies_and_finds_nothing_in_sound_logs(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path, 2)
        await harness.scrubber.round()
        counters = harness.counters
        assert (counters.scrubbed_segments, counters.scrubbed_bytes) == (6, 6 * ONE)
        assert (counters.scrub_rounds, counters.ranges_found, counters.indexes_rebuilt) == (1, 0, 0)
        assert harness.healed == []
        assert all(segment.is_verified for one in harness.hosted for segment in one.log.segments)
        assert harness.thread.closed == 6
        assert [noted[2:] for noted in harness.cleaner.verified if noted[0] is harness.hosted[0]] == [
            (0, 1),
            (1, 2),
            (2, 3),
        ]

    simulated(story)


def cut(path: str, left: int | None) -> None:
    """Cuts the file to so many bytes; with None removes it."""
    data = Path(path).read_bytes()
    Path(path).unlink()
    if left is not None:
        Path(path).write_bytes(data[:left])


@pytest.mark.parametrize("left", [None, 0, 1, ONE - 1])
def test_segment_is_as_long_as_its_file(left: int | None, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        segment = harness.hosted[0].log.segments[0]
        cut(segment.path, left)
        await harness.scrubber.round()
        assert segment.size == (left or 0) and harness.damaged() == [(0, 1)]
        assert len(harness.healed) == 1

    simulated(story)


def test_damaged_batch_is_noted_saved_and_healed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        [hosted] = harness.hosted
        harness.damage(1)
        await harness.scrubber.round()
        assert harness.damaged() == [(1, 2)]
        assert harness.healed == [hosted]
        assert harness.counters.ranges_found == 1
        assert "offsets 1 to 1 are damaged" in caplog.text
        again = Log.open(hosted.log.path, hosted.topic, 0, hosted.log.config, now_ms=NOW_MS)
        assert [(one.first_offset, one.next_offset) for one in again.damage] == [(1, 2)]

    simulated(story)


def test_damage_that_is_known_is_healed_again_and_counted_once(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        harness.damage(0)
        await harness.scrubber.round()
        await harness.scrubber.round()
        assert harness.counters.ranges_found == 1
        assert len(harness.healed) == 2

    simulated(story)


def test_ranges_beyond_the_first_share_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        [hosted] = harness.hosted
        verifier = SegmentVerifier(Job(hosted.log.directory, 0, 1, ONE, False, False)).run()
        verifier.found = [
            DamagedRange(f"{number:020}.log", 0, 10, number * 2, number * 2 + 1, "rot")
            for number in range(MOST_LINES + 3)
        ]
        await harness.scrubber._take_note(hosted, hosted.log.segments[0], verifier)
        assert harness.counters.ranges_found == MOST_LINES + 3

    simulated(story)
    lines = [record.getMessage() for record in caplog.records if "damaged" in record.getMessage()]
    assert len(lines) == MOST_LINES + 1
    assert f"3 more ranges of {tmp_path}" in lines[-1]


@pytest.mark.parametrize(("base", "segments"), [(1, 3), (2, 4)])
def test_file_that_is_too_short_is_damaged_from_its_end_on(base: int, segments: int, tmp_path: Path) -> None:
    """An active segment that has shrunk is closed: the next batch must not be written behind a hole."""

    async def story() -> None:
        harness = Scrubbing(tmp_path)
        [hosted] = harness.hosted
        os.truncate(hosted.log.segment_of(base).path, ONE // 2)
        await harness.scrubber.round()
        assert harness.damaged() == [(base, base + 1)]
        assert len(hosted.log.segments) == segments
        assert hosted.log.segment_of(base).size == ONE // 2

    simulated(story)


@pytest.mark.parametrize("is_active", [True, False])
def test_wrong_index_of_a_closed_segment_is_rebuilt(is_active: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        [hosted] = harness.hosted
        segment = hosted.log.active if is_active else hosted.log.segments[0]
        index = Path(segment.path).with_suffix(".timeindex")
        index.write_bytes(b"\x7f" * 12)
        await harness.scrubber.round()
        assert harness.counters.indexes_rebuilt == (0 if is_active else 1)
        if not is_active:
            assert TimeIndex.ENTRY.unpack(index.read_bytes()) == (NOW_MS, 0)

    simulated(story)


def test_round_waits_between_its_pieces_for_the_rate(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path, rate=ONE)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await harness.scrubber.round()
        assert loop.time() - began == pytest.approx(3, abs=0.1)
        assert harness.counters.last_round_took_ms == pytest.approx(3000, abs=100)
        assert harness.counters.last_round_ms == loop_clock().now_ms()

    simulated(story)


@pytest.mark.parametrize(("interval_ms", "first_s"), [(1_000_000, FIRST_ROUND_DELAY_S), (5_000, 5.0)])
def test_rounds_begin_soon_after_the_start_and_then_at_their_interval(
    interval_ms: int, first_s: float, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path, interval_ms=interval_ms)
        harness.scrubber.start()
        await after_ms(first_s * 1000 - 100)
        assert harness.counters.scrub_rounds == 0
        await after_ms(200)
        assert harness.counters.scrub_rounds == 1
        await after_ms(interval_ms - 300)
        assert harness.counters.scrub_rounds == 1
        await after_ms(400)
        assert harness.counters.scrub_rounds == 2
        await harness.scrubber.stop()
        await after_ms(interval_ms * 2)
        assert harness.counters.scrub_rounds == 2

    simulated(story)


@pytest.mark.parametrize("rate", [0, 1])
def test_scrubber_without_a_rate_has_no_rounds(rate: int, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path, rate=rate, interval_ms=1000)
        harness.scrubber.start()
        await after_ms(2_000_000)
        assert (harness.counters.scrub_rounds > 0) == (rate > 0)
        await harness.scrubber.stop()

    simulated(story)


def test_round_that_fails_is_reported_and_the_next_one_runs(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path, interval_ms=1000)
        failures = [ZeroDivisionError("a bug")]

        def fail() -> None:
            if failures:
                raise failures.pop()

        harness.thread.before = fail
        harness.scrubber.start()
        await after_ms(1100)
        assert (harness.background.failures["scrubber"], list(harness.background.failing)) == (1, ["scrubber"])
        await after_ms(1000)
        assert (harness.counters.scrub_rounds, harness.background.failing) == (1, {})
        await harness.scrubber.stop()

    simulated(story)


# ---- logs that change meanwhile


@pytest.mark.parametrize("event", ["removed", "offline", "other log", "truncated", "moved"])
def test_verification_of_a_segment_that_is_gone_ends_without_a_note(event: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        [hosted] = harness.hosted
        harness.damage(0)

        def change() -> None:
            hosted.is_removed, hosted.offline = event == "removed", event == "offline"
            if event == "other log":
                hosted.log = Hosted(tmp_path / "other").log
            elif event == "truncated" and hosted.log.log_end_offset == 3:
                hosted.log.truncate_to(2, NOW_MS)
            elif event == "moved" and hosted.log.path.endswith("-0"):
                hosted.log.move_to(f"{tmp_path}/elsewhere")

        harness.thread.before = change
        await harness.scrubber._verify(hosted, hosted.log.segments[0], 1 << 30)
        assert harness.counters.scrubbed_segments == 0
        assert harness.counters.scrubbed_bytes == (0 if event == "moved" else ONE), "the piece was read"
        assert harness.healed == []
        assert harness.thread.closed == 1

    simulated(story)


@pytest.mark.parametrize("state", ["removed", "offline", "not its own"])
def test_segment_that_is_not_there_is_not_read(state: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        [hosted] = harness.hosted
        segment = hosted.log.segments[0]
        if state == "not its own":
            segment = Hosted(tmp_path / "other").log.segments[0]
        hosted.is_removed, hosted.offline = state == "removed", state == "offline"
        await harness.scrubber._verify(hosted, segment, 1 << 30)
        assert (harness.thread.steps, harness.thread.closed) == (0, 0)

    simulated(story)


@pytest.mark.parametrize(
    ("state", "is_noted"), [("there", True), ("removed", False), ("folder missing", False), ("kind", True)]
)
def test_file_that_cannot_be_read_takes_the_directory_offline(state: str, is_noted: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        [hosted] = harness.hosted

        def fail() -> None:
            hosted.is_removed = state == "removed"
            if state == "folder missing":
                Path(hosted.log.path).rename(tmp_path / "gone")
            raise (
                LogDirectoryFailure("/d", "reading", OSError(5, "broken")) if state == "kind" else OSError(5, "broken")
            )

        harness.thread.before = fail
        await harness.scrubber._verify(hosted, hosted.log.segments[0], 1 << 30)
        assert len(hosted.failures) == int(is_noted)
        assert all(isinstance(failure, LogDirectoryFailure) for failure in hosted.failures)

    simulated(story)


def test_two_verifications_of_a_segment_run_one_after_the_other(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path, rate=ONE)
        [hosted] = harness.hosted
        segment = hosted.log.segments[0]
        both = [asyncio.create_task(harness.scrubber._verify(hosted, segment, ONE)) for _ in range(2)]
        await turns()
        assert harness.thread.steps == 1
        await asyncio.gather(*both)
        assert harness.counters.scrubbed_segments == 2
        assert harness.scrubber._verifying == {}

    simulated(story)


# ---- inspections


def test_inspection_calls_all_waiting_reads_when_the_damage_is_found(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        [hosted] = harness.hosted
        harness.damage(1)
        called: list[tuple[str, list[tuple[int, int]]]] = []
        for name in ("first", "second"):
            harness.scrubber.inspect(hosted, 1, lambda name=name: called.append((name, harness.damaged())))
        assert called == []
        await turns()
        assert called == [("first", [(1, 2)]), ("second", [(1, 2)])]
        assert harness.counters.scrubbed_segments == 1, "one inspection for both"
        harness.scrubber.inspect(hosted, 1, lambda: called.append(("third", [])))
        await turns()
        assert len(called) == 3

    simulated(story)


def test_inspection_of_a_segment_that_is_gone_calls_waiting_reads(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        [hosted] = harness.hosted
        called: list[int] = []
        harness.scrubber.inspect(hosted, 77, lambda: called.append(1))
        await turns()
        assert (called, harness.thread.steps) == ([1], 0)

    simulated(story)


def test_inspection_that_fails_is_reported_and_calls_waiting_reads(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        [hosted] = harness.hosted
        called: list[int] = []

        def fail() -> None:
            harness.thread.before = lambda: None
            raise ZeroDivisionError("a bug")

        harness.thread.before = fail
        harness.scrubber.inspect(hosted, 0, lambda: called.append(1))
        await turns()
        assert called == [1]
        assert list(harness.background.failing) == ["inspection of damage"]
        harness.scrubber.inspect(hosted, 0)
        await turns()
        assert harness.background.failing == {}

    simulated(story)


def test_inspection_is_faster_than_a_round(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path, rate=1)
        began = asyncio.get_running_loop().time()
        harness.scrubber.inspect(harness.hosted[0], 0)
        await turns()
        assert harness.counters.scrubbed_segments == 1
        assert asyncio.get_running_loop().time() - began < 1

    simulated(story)


def test_stop_ends_an_inspection(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        waiting = asyncio.Event()

        async def run(work: Any) -> Any:
            await waiting.wait()

        harness.thread.run = run  # type: ignore[method-assign]
        called: list[int] = []
        harness.scrubber.inspect(harness.hosted[0], 0, lambda: called.append(1))
        await turns()
        await harness.scrubber.stop()
        assert called == [1]
        assert harness.scrubber._tasks == set()

    simulated(story)


@pytest.mark.parametrize(
    ("damage", "is_inspected", "words"),
    [
        (SegmentSuspected(1, "suspect"), True, None),
        (OffsetDamaged("damaged", DamagedRange("f", 0, 1, 1, 2, "rot")), False, "failed with CORRUPT_MESSAGE: damaged"),
        (CorruptBatch("rotten"), False, "failed with CORRUPT_MESSAGE: rotten"),
    ],
)
def test_read_that_met_damage_counts_and_a_suspected_segment_is_inspected(
    damage: Any, is_inspected: bool, words: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        for _ in range(2):
            harness.scrubber.met(harness.hosted[0], damage)
        await turns()
        assert harness.counters.reads_rejected == 2
        assert harness.counters.scrubbed_segments == int(is_inspected)

    simulated(story)
    lines = [record.getMessage() for record in caplog.records if "a read of orders-0" in record.getMessage()]
    assert len(lines) == (0 if words is None else 1), "the second line is the same"
    assert words is None or words in lines[0]


def test_follower_that_repeats_its_fetch_has_the_segment_inspected_once_in_a_while(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path, 2)
        await after_ms(1000)
        first, second = harness.hosted
        for _ in range(3):
            harness.scrubber.doubt(first, 1)
        harness.scrubber.doubt(second, 0)
        await turns()
        assert harness.counters.scrubbed_segments == 2
        await after_ms(DOUBT_INTERVAL_S * 1000 - 100)
        harness.scrubber.doubt(first, 1)
        await turns()
        assert harness.counters.scrubbed_segments == 2
        await after_ms(200)
        harness.scrubber.doubt(first, 1)
        await turns()
        assert harness.counters.scrubbed_segments == 3

    simulated(story)


def test_doubts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrubber_module, "MOST_DOUBTED", 2)

    async def story() -> None:
        harness = Scrubbing(tmp_path, 3)
        for one in harness.hosted:
            harness.scrubber.doubt(one, 0)
        assert list(harness.scrubber._doubted) == harness.hosted[2:]
        await turns()

    simulated(story)


# ---- segments that are read


def test_read_segments_wait_up_to_a_limit_and_at_the_rate_of_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrubber_module, "MOST_SOON", 2)

    async def story() -> None:
        harness = Scrubbing(tmp_path, 2, rate=ONE)
        first, second = harness.hosted
        for hosted, offset in ((first, 0), (first, 1), (second, 0)):
            harness.scrubber.verify_soon(hosted, offset)
        assert not second.log.segments[0].is_verified, "the next read asks again"
        await after_ms(500)
        assert harness.counters.scrubbed_bytes == ONE
        await after_ms(2000)
        assert harness.counters.scrubbed_segments == 2
        harness.scrubber.verify_soon(second, 0)
        await after_ms(1100)
        assert harness.counters.scrubbed_segments == 3

    simulated(story)


def test_failed_verification_of_a_read_segment_is_reported_and_the_next_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        [hosted] = harness.hosted

        def fail() -> None:
            harness.thread.before = lambda: None
            raise ZeroDivisionError("a bug")

        harness.thread.before = fail
        harness.scrubber.verify_soon(hosted, 0)
        await turns()
        assert list(harness.background.failing) == ["verification of read segments"]
        harness.scrubber.verify_soon(hosted, 1)
        await turns()
        assert harness.background.failing == {}
        assert harness.counters.scrubbed_segments == 1

    simulated(story)


@pytest.mark.parametrize(
    ("compacts", "cleaned", "is_damaged"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_offsets_that_are_missing_are_damage_unless_the_log_is_or_was_compacted(
    compacts: bool, cleaned: bool, is_damaged: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Scrubbing(tmp_path)
        hosted = Hosted(tmp_path / "gaps", segment_bytes=ONE, compact=compacts)
        harness.cleaner.was_cleaned = cleaned
        hosted.log.append(batch(offset=0), None, NOW_MS)
        hosted.log.append(batch(offset=5), None, NOW_MS)
        await harness.scrubber._verify(hosted, hosted.log.segments[0], 1 << 30)
        assert bool(list(hosted.log.damage)) == is_damaged

    simulated(story)
