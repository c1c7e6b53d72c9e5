"""The commits of a single voter on its real log: which appends share a flush, and what a failing flush does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.internal.cluster_metadata import NoOpRecord
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.lone_voter import LoneVoter
from odradek.server.controller.metadata_log import FLUSH_RETRY_S, FLUSH_TASK, QuorumLog
from odradek.storage.files.failures import LogDirectoryFailure

from tests.server.harness.nodes import node_of
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

METADATA_VERSION = 30


class Flushing:
    """The thread of the flushes: each ends when the test lets it, or fails."""

    def __init__(self) -> None:
        self.runs = 0
        self.is_open = asyncio.Event()
        self.failures: list[Exception] = []

    async def run(self, flush: Callable[[], Any]) -> None:
        self.runs += 1
        await self.is_open.wait()
        if self.failures:
            raise self.failures.pop(0)
        flush()


class Voting:
    def __init__(self, path: Path) -> None:
        folder = path / "__cluster_metadata-0"
        folder.mkdir()
        clock = loop_clock()
        self.log = QuorumLog(folder, BrokerConfig({}), clock.now_ms())
        self.append(1)
        self.log.flush(clock.now_ms())
        self.flushing = Flushing()
        self.committed: list[int] = []
        self.failed: list[Exception] = []
        node = node_of(clock=clock, metadata_log=self.flushing)
        self.background = node.background
        self.voter = LoneVoter(node, self.log, 1, 0, self.committed.append, self.failed.append)

    def append(self, count: int) -> None:
        for _ in range(count):
            self.log.append([NoOpRecord()], 1, 0, METADATA_VERSION, True)

    def appended(self, count: int = 1) -> None:
        for _ in range(count):
            self.append(1)
            self.voter.appended()


def test_appends_of_a_turn_share_a_flush_and_later_ones_the_next(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Voting(tmp_path)
        assert harness.voter.offset == 1
        harness.appended(3)
        await turns()
        assert (harness.flushing.runs, harness.committed) == (1, [])
        harness.appended(2)
        await turns()
        assert harness.flushing.runs == 1, "the first is not over"
        harness.flushing.is_open.set()
        await turns()
        assert (harness.flushing.runs, harness.committed, harness.voter.offset) == (2, [4, 6], 6)
        assert harness.log.log.recovery_point == 6
        assert harness.log.flushed_end.recorded.end_offset == 6
        harness.appended()
        await turns()
        assert harness.committed == [4, 6, 7]

    simulated(story)


def test_records_that_are_on_the_disk_already_are_committed_without_a_flush(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Voting(tmp_path)
        harness.append(2)
        harness.log.flush(0)
        harness.voter.appended()
        await turns()
        assert (harness.flushing.runs, harness.committed) == (0, [3])

    simulated(story)


def test_failing_disk_is_reported_and_commits_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Voting(tmp_path)
        failure = LogDirectoryFailure("/d", "flushing", OSError(5, "broken"))
        harness.flushing.failures.append(failure)
        harness.flushing.is_open.set()
        harness.appended()
        await turns()
        assert (harness.failed, harness.committed) == ([failure], [])
        await after_ms(10 * FLUSH_RETRY_S * 1000)
        assert harness.flushing.runs == 1, "it is not tried again"

    simulated(story)


def test_flush_that_fails_otherwise_is_repeated_until_it_succeeds(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Voting(tmp_path)
        harness.flushing.failures += [ZeroDivisionError("a bug"), ZeroDivisionError("a bug")]
        harness.flushing.is_open.set()
        harness.appended()
        await turns()
        assert (list(harness.background.failing), harness.committed, harness.failed) == ([FLUSH_TASK], [], [])
        await after_ms(FLUSH_RETRY_S * 1000 - 10)
        assert harness.flushing.runs == 1
        await after_ms(20)
        assert (harness.flushing.runs, harness.committed) == (2, [])
        await after_ms(FLUSH_RETRY_S * 1000)
        assert (harness.flushing.runs, harness.committed, harness.background.failing) == (3, [2], {})

    simulated(story)


@pytest.mark.parametrize("event", ["retired", "committed meanwhile"])
def test_flush_is_not_repeated_when_nothing_is_left_to_commit(event: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Voting(tmp_path)
        harness.flushing.failures.append(ZeroDivisionError("a bug"))
        harness.flushing.is_open.set()
        harness.appended()
        await turns()
        if event == "retired":
            harness.voter.retire()
        else:
            harness.voter.appended()
            await turns()
            assert harness.committed == [2]
        runs = harness.flushing.runs
        await after_ms(2 * FLUSH_RETRY_S * 1000)
        assert harness.flushing.runs == runs

    simulated(story)


def test_retired_voter_commits_nothing_of_the_flush_under_way(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Voting(tmp_path)
        harness.appended()
        await turns()
        harness.voter.retire()
        harness.flushing.is_open.set()
        await turns()
        assert (harness.committed, harness.voter.offset) == ([], 1)
        assert harness.log.log.recovery_point == 2, "the log is flushed"

    simulated(story)


def test_idle_is_when_everything_is_committed(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Voting(tmp_path)
        await harness.voter.until_idle()
        harness.appended()
        waiting = asyncio.create_task(harness.voter.until_idle())
        await turns()
        assert not waiting.done()
        harness.flushing.is_open.set()
        await waiting
        assert harness.committed == [2]

    simulated(story)


def test_single_voter_leads_with_the_voters_of_its_log(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Voting(tmp_path)
        voter = harness.voter
        assert voter.leads and voter.is_caught_up
        assert voter.kraft_version == harness.log.quorum.kraft_version
        assert voter.voters_at(0) is harness.log.quorum

    simulated(story)
