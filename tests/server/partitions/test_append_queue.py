"""The queue of batches that a thread checks: their order, their parts, and what is kept of each, turn by turn."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.acks import ALL_IN_SYNC
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import iter_headers
from odradek.server.partitions.append_result import AppendResult, QueuedAppend
from odradek.server.partitions.append_rules import LARGE_BATCH_BYTES
from odradek.server.partitions.batch_validation import CheckedBatch
from odradek.storage.segments.segment import PART_BYTES

from tests.server.harness.hosted import NOW_MS, PLAIN, Hosted, batch
from tests.server.harness.virtual_time import simulated, turns

OTHER = 2
LARGE_PARTS = 5
LARGE = b"l" * (LARGE_PARTS * PART_BYTES)
RULES = dataclasses.replace(PLAIN, max_message_bytes=1 << 30)


class Checks:
    """The pool of threads: the test ends each check."""

    def __init__(self) -> None:
        self.cpu = self
        self._started: list[tuple[Callable[[], CheckedBatch], asyncio.Future[CheckedBatch]]] = []

    def start(self, check: Callable[[], CheckedBatch]) -> asyncio.Future[CheckedBatch]:
        future: asyncio.Future[CheckedBatch] = asyncio.get_running_loop().create_future()
        self._started.append((check, future))
        return future

    def end(self, number: int, failure: Exception | None = None) -> None:
        check, future = self._started[number]
        try:
            if failure is not None:
                raise failure
            future.set_result(check())
        except Exception as error:
            future.set_exception(error)


class Queued(Hosted):
    """A leader that notes the turn of the loop in which it writes each part of a large batch."""

    def __init__(self, path: Path, *others: int) -> None:
        self.checks: Any = Checks()
        self.results: list[tuple[str, AppendResult]] = []
        self.turn = 0
        self.part_turns: list[int] = []
        self.dropped = 0
        super().__init__(path, rules=RULES, pools=self.checks)
        self.lead(*others)

    def add(self, name: str, records: Any, *, acks: int = 1) -> QueuedAppend:
        queued = self._enqueue(records, NOW_MS, acks, 13, False).queued
        assert queued is not None
        queued.then = lambda result: self.results.append((name, result))  # type: ignore[method-assign]
        return queued

    async def turns_until_written(self) -> None:
        while self.queue is not None:
            assert self.turn < 100, "the queue does not end"
            self.turn += 1
            await asyncio.sleep(0)

    def write_ahead(self, checked: CheckedBatch, queued: QueuedAppend) -> bool:
        self.part_turns.append(self.turn)
        return super().write_ahead(checked, queued)

    def drop_ahead(self) -> None:
        self.dropped += 1
        super().drop_ahead()

    def offsets_of_results(self) -> list[tuple[str, int, int]]:
        return [(name, result.error, result.base_offset) for name, result in self.results]


def test_batches_are_written_in_the_order_of_their_arrival_whatever_check_ends_first(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = Queued(tmp_path)
        for name, count in (("first", 2), ("second", 3), ("third", 1)):
            hosted.add(name, batch(count, epoch=-1))
        hosted.checks.end(2)
        hosted.checks.end(1)
        await turns()
        assert (hosted.results, hosted.log_end_offset) == ([], 0)
        hosted.checks.end(0)
        await turns()
        assert hosted.offsets_of_results() == [("first", 0, 0), ("second", 0, 2), ("third", 0, 5)]
        assert hosted.queue is None

    simulated(story)


def test_batches_behind_one_whose_check_goes_on_wait_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = Queued(tmp_path)
        for name in ("first", "second", "third"):
            hosted.add(name, batch(epoch=-1))
        hosted.checks.end(0)
        hosted.checks.end(2)
        await turns()
        assert hosted.offsets_of_results() == [("first", 0, 0)]
        assert hosted.queue is not None
        hosted.checks.end(1)
        await turns()
        assert hosted.offsets_of_results()[1:] == [("second", 0, 1), ("third", 0, 2)]

    simulated(story)


def test_leader_writes_batches_at_once_again_when_the_queue_is_empty(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = Queued(tmp_path)
        hosted.add("first", batch(epoch=-1))
        assert hosted.append(batch(epoch=-1), NOW_MS).queued is not None
        hosted.checks.end(0)
        await turns()
        assert hosted.append(batch(epoch=-1), NOW_MS).queued is not None, "one is still queued"
        hosted.checks.end(1)
        hosted.checks.end(2)
        await turns()
        written = hosted.append(batch(epoch=-1), NOW_MS)
        assert (written.queued, written.base_offset) == (None, 3)

    simulated(story)


def test_large_batch_is_written_one_part_a_turn_while_other_checks_end(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = Queued(tmp_path)
        hosted.add("large", batch(epoch=-1, value=LARGE))
        for _ in range(3):
            hosted.add("small", batch(epoch=-1))
        hosted.checks.end(0)
        await asyncio.sleep(0)
        for number in (1, 2, 3):  # in the turns in which parts are written
            hosted.checks.end(number)
        await hosted.turns_until_written()
        assert len(hosted.part_turns) == LARGE_PARTS
        assert len(set(hosted.part_turns)) == len(hosted.part_turns), "no turn has two parts"
        assert [offset for _, _, offset in hosted.offsets_of_results()] == [0, 1, 2, 3]
        assert hosted.dropped == 1
        data = hosted.log.read(0, 1 << 30).bytes()
        assert [header.base_offset for _, header in iter_headers(data)] == [0, 1, 2, 3]

    simulated(story)


def test_large_batch_behind_a_large_batch_is_written_in_parts_too(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = Queued(tmp_path)
        hosted.add("first", batch(epoch=-1, value=LARGE))
        hosted.add("second", batch(2, epoch=-1, value=LARGE))
        hosted.checks.end(0)
        hosted.checks.end(1)
        await hosted.turns_until_written()
        assert hosted.offsets_of_results() == [("first", 0, 0), ("second", 0, 1)]
        assert hosted.dropped == 2
        assert len(hosted.part_turns) == 3 * LARGE_PARTS

    simulated(story)


@pytest.mark.parametrize(
    ("size", "is_kept"), [(LARGE_BATCH_BYTES - 1, False), (LARGE_BATCH_BYTES, False), (LARGE_BATCH_BYTES + 1, True)]
)
def test_queue_copies_all_but_large_batches(size: int, is_kept: bool, tmp_path: Path) -> None:
    """The buffer of a small one belongs to the connection, which receives the next request into it."""

    async def story() -> None:
        hosted = Queued(tmp_path)
        overhead = len(batch(value=b"v" * size)) - size
        records = batch(epoch=-1, value=b"v" * (size - overhead))
        assert len(records) == size
        hosted.add("one", records)
        records[:] = bytes(size)
        hosted.checks.end(0)
        await hosted.turns_until_written()
        [(_, result)] = hosted.results
        assert bool(result.error) == is_kept, "what is kept has the zeros"

    simulated(story)


def test_request_without_records_is_rejected_in_its_turn(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = Queued(tmp_path)
        assert hosted.add("none", None).size == 0
        hosted.add("next", batch(epoch=-1))
        hosted.checks.end(0)
        hosted.checks.end(1)
        await turns()
        assert hosted.offsets_of_results() == [("none", ErrorCode.INVALID_RECORD, -1), ("next", 0, 0)]
        assert hosted.counters.failed_produces == 1

    simulated(story)


def test_check_that_fails_by_a_bug_is_an_unknown_server_error_and_does_not_stop_the_queue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        hosted = Queued(tmp_path)
        hosted.add("first", batch(epoch=-1))
        hosted.add("second", batch(epoch=-1))
        hosted.checks.end(0, ZeroDivisionError("a bug"))
        hosted.checks.end(1)
        await turns()
        assert hosted.offsets_of_results() == [("first", ErrorCode.UNKNOWN_SERVER_ERROR, -1), ("second", 0, 0)]
        assert "orders-0 could not be opened" in caplog.text

    simulated(story)


@pytest.mark.parametrize(
    ("state", "acks", "error"),
    [
        ("leader", 1, 0),
        ("leader", ALL_IN_SYNC, ErrorCode.NOT_ENOUGH_REPLICAS),
        ("follower", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("offline", 1, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_large_batch_meets_the_state_of_its_turn_and_leaves_no_bytes_when_it_is_rejected(
    state: str, acks: int, error: int, tmp_path: Path
) -> None:
    async def story() -> None:
        hosted = Queued(tmp_path, OTHER)
        hosted.add("large", batch(epoch=-1, value=LARGE), acks=acks)
        hosted.checks.end(0)
        await asyncio.sleep(0)
        assert hosted.part_turns == [0]
        if state == "follower":
            hosted.follow_leader(OTHER, epoch=2)
        else:
            hosted.lead(OTHER, isr=(0,), partition_epoch=1)
        hosted.offline = state == "offline"
        hosted.rules = dataclasses.replace(RULES, min_insync_replicas=2)
        hosted.refresh_append_state()
        await hosted.turns_until_written()
        [(_, result)] = hosted.results
        assert result.error == error
        assert hosted.log_end_offset == (0 if error else 1)
        sizes.append(hosted.log.active.size)

    sizes: list[int] = []
    simulated(story)
    assert [path.stat().st_size for path in tmp_path.glob("*/*.log")] == sizes
