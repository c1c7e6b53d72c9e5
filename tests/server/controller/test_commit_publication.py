"""Committed records: replayed from memory and from the log, published, replied to, and written into snapshots."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE
from odradek.metadata.transactions import MetadataTransactions
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    TopicRecord,
)
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from odradek.protocol.schema import Message
from odradek.replication.quorum.log import SnapshotId as RaftEnd
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller import flushed_end
from odradek.server.controller.commits import (
    Appended,
    Commits,
    replay_decision,
    snapshot_commits,
)
from odradek.server.controller.controller_request import Asked
from odradek.server.controller.flushed_end import FLUSHED_END, NOWHERE, FlushedEnd
from odradek.server.controller.metadata_log import Loaded, QuorumLog
from odradek.server.controller.metadata_snapshots import SnapshotId, write_image_snapshot
from odradek.server.controller.quorum_voters import QuorumVoters
from odradek.server.controller.snapshotting import TASK, Snapshotting
from odradek.server.controller.undecided import failed_here, not_controller
from odradek.server.controller.waiting_replies import WaitingReplies
from odradek.server.runtime.background_tasks import RETRY_MS
from odradek.server.runtime.sliced_work import run_to_completion

from tests.replication.controller_transcript import Transcript
from tests.server.harness.noted_background import NotedBackground
from tests.server.harness.quorum_logs import quorum_log_in
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

EPOCH = 3


def topic(name: str) -> TopicRecord:
    return TopicRecord(name, name.encode().ljust(16, b"."))


class Log:
    """A metadata log in a folder, and the commits of a node that has it."""

    def __init__(self, path: Path) -> None:
        path.mkdir(exist_ok=True)
        self.log = QuorumLog(path, BrokerConfig({}), 1)
        self.commits = Commits(self.log, MetadataDelta(EMPTY_IMAGE), EMPTY_IMAGE, MetadataTransactions())

    def append(self, *records: Message, epoch: int = EPOCH, at_ms: int = 7) -> Appended:
        base = self.log.end_offset
        self.log.append(records, epoch, at_ms, 30, True)
        return Appended(base, self.log.end_offset, records, epoch, at_ms)

    def names(self) -> set[str]:
        return set(self.commits.image().topics.by_name)


# ---- replay


def test_decisions_are_replayed_when_all_of_their_records_are_committed(tmp_path: Path) -> None:
    node = Log(tmp_path / "log")
    assert not node.commits.advance(0)
    for name in ("ab", "cd"):
        node.commits.appended(node.append(topic(name[0]), topic(name[1]), epoch=4, at_ms=9))
    assert not node.commits.advance(1), "a decision is one"
    assert node.commits.advance(3)
    assert (node.names(), node.commits.offset) == ({"a", "b"}, 2)
    assert node.commits.advance(4) and not node.commits.advance(4)
    image = node.commits.image()
    assert (image.offset, image.epoch, image.last_append_timestamp_ms) == (3, 4, 9)
    assert node.names() == set("abcd")


def test_records_of_others_are_read_up_to_the_next_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[int, int]] = []
    original = Commits._read

    def read(self: Commits, end_offset: int) -> bool:
        reads.append((self.offset, end_offset))
        return original(self, end_offset)

    monkeypatch.setattr(Commits, "_read", read)
    node = Log(tmp_path / "log")
    for name in "abc":
        node.append(topic(name))
    node.commits.appended(node.append(topic("d"), at_ms=8))
    node.append(topic("e"), epoch=EPOCH + 1, at_ms=11)
    assert node.commits.advance(5)
    assert node.names() == set("abcde")
    assert reads[0] == (0, 3) and reads[-1] == (4, 5)
    image = node.commits.image()
    assert (image.offset, image.epoch, image.last_append_timestamp_ms) == (4, EPOCH + 1, 11)


def test_decisions_that_are_forgotten_are_read_from_the_log(tmp_path: Path) -> None:
    node = Log(tmp_path / "log")
    node.commits.appended(Appended(0, 1, [topic("other")], EPOCH, 7))
    node.append(topic("a"))
    node.commits.forget_appended()
    assert node.commits.advance(1)
    assert node.names() == {"a"}


def test_records_of_a_transaction_take_effect_with_its_end(tmp_path: Path) -> None:
    node = Log(tmp_path / "log")
    node.append(BeginTransactionRecord("t"))
    node.append(topic("a"))
    assert node.commits.advance(2)
    assert (node.commits.in_transaction, node.names()) == (True, set())
    node.append(EndTransactionRecord())
    node.append(BeginTransactionRecord("t"), topic("b"), AbortTransactionRecord("no"))
    node.commits.advance(6)
    assert (node.commits.in_transaction, node.names()) == (False, {"a"})


def test_published_delta_leads_to_the_next_image(tmp_path: Path) -> None:
    node = Log(tmp_path / "log")
    node.append(topic("a"))
    node.commits.advance(1)
    delta, image = node.commits.take()
    assert delta.image is EMPTY_IMAGE and set(image.topics.by_name) == {"a"}
    node.append(topic("b"))
    node.commits.advance(2)
    delta, after = node.commits.take()
    assert delta.image is image and delta.topics is not None
    assert {one.before.name for one in delta.topics.changed.values()} == {"b"}
    assert set(after.topics.by_name) == {"a", "b"}


def test_nothing_is_replayed_while_a_fetched_snapshot_waits(tmp_path: Path) -> None:
    node = Log(tmp_path / "log")
    node.append(topic("a"))
    node.commits.replaced(SnapshotId(1, EPOCH))
    assert node.commits.is_replaced and not node.commits.advance(1)
    assert node.names() == set()


@pytest.mark.parametrize("is_first", [True, False])
def test_fetched_snapshot_takes_the_place_of_what_was_replayed(is_first: bool, tmp_path: Path) -> None:
    node = Log(tmp_path / "log")
    if not is_first:
        node.append(topic("a"), topic("b"))
        node.commits.advance(2)
        node.commits.take()
    delta = MetadataDelta(EMPTY_IMAGE)
    for name in "bc":
        delta.replay(topic(name))
    written = delta.apply(6, EPOCH + 1, 50)
    snapshot = write_image_snapshot(node.log.directory, written, QuorumVoters(1, []), 60)
    node.log.replaced_by(snapshot, 70)
    node.commits.replaced(snapshot)
    run_to_completion(node.commits.load())
    assert not node.commits.is_replaced and node.commits.offset == 7
    delta, image = node.commits.take()
    assert (image.offset, image.epoch, image.last_append_timestamp_ms) == (6, EPOCH + 1, 50)
    assert set(image.topics.by_name) == {"b", "c"}
    assert delta.topics is not None
    assert {one.name for one in delta.topics.deleted.values()} == (set() if is_first else {"a"})
    node.append(topic("d"), epoch=EPOCH + 1, at_ms=80)
    node.commits.advance(8)
    assert (node.commits.image().offset, node.names()) == (7, {"b", "c", "d"})


def test_decision_that_cannot_be_replayed_leaves_the_controller_as_it_was() -> None:
    transcript = Transcript()
    transcript.run("> broker 1\n> CreateTopics topics=\"[{'name':'a','num_partitions':1,'replication_factor':1}]\"\n")
    controller = transcript.controller
    before, end = controller.image, controller.next_offset
    with pytest.raises(Exception):  # noqa: B017 - any failure of the replay
        replay_decision(controller, [topic("b"), object()], 1, 0, 1)  # type: ignore[list-item]
    assert controller.next_offset == end and controller.image == before
    replay_decision(controller, [topic("b")], 1, 0, 1)
    assert controller.next_offset == end + 1 and controller.image.topic("b") is not None


# ---- replies


ASKED = Asked(AllocateProducerIdsRequest(0, 5), 0)


def test_replies_follow_the_publication_in_their_order(caplog: pytest.LogCaptureFixture) -> None:
    waiting, reported = WaitingReplies(), list[Any]()
    for offset in (3, 3, 5):
        waiting.add(offset, ASKED, reported.append, AllocateProducerIdsResponse(offset))
    waiting.add(5, ASKED, lambda response: 1 / 0, AllocateProducerIdsResponse(5))  # type: ignore[arg-type, return-value]
    waiting.add(6, ASKED, reported.append, AllocateProducerIdsResponse(6))
    waiting.add(7, ASKED, reported.append, AllocateProducerIdsResponse(7))
    waiting.published(2)
    assert reported == []
    waiting.published(3)
    assert [one.throttle_time_ms for one in reported] == [3, 3]
    waiting.published(6)
    assert [one.throttle_time_ms for one in reported] == [3, 3, 5, 6]
    assert "could not be sent" in caplog.text
    waiting.reject_all()
    assert reported[4:] == [not_controller(*ASKED)]
    waiting.published(100)
    waiting.reject_all()
    assert len(reported) == 5
    assert not_controller(*ASKED).error_code == ErrorCode.NOT_CONTROLLER  # type: ignore[attr-defined]
    assert failed_here(*ASKED).error_code == ErrorCode.UNKNOWN_SERVER_ERROR  # type: ignore[attr-defined]


# ---- snapshots


class SnapshotsOnly:
    """The metadata log of a node, which has snapshots and no records."""

    directory = Path("/d")
    bytes_since_snapshot = 0
    on_uncovered_damage: Callable[[], None]

    def __init__(self) -> None:
        self.snapshots: list[SnapshotId] = []

    def add_snapshot(self, snapshot: SnapshotId, now_ms: int) -> None:
        self.snapshots.append(snapshot)


class Writing:
    """The snapshots of a node, whose disk the test decides."""

    def __init__(self, *, interval_ms: int = 0, most_bytes: int = 100) -> None:
        config: Any = {
            "metadata.log.max.snapshot.interval.ms": interval_ms,
            "metadata.log.max.record.bytes.between.snapshots": most_bytes,
        }
        self.log: Any = SnapshotsOnly()
        self.offset = 9
        self.in_transaction = False
        self.running: list[tuple[Any, asyncio.Future[Any]]] = []
        disk: Any = self
        background = NotedBackground()
        self.tasks = background.attempts
        self.snapshots = Snapshotting(config, loop_clock(), disk, self.log, self._committed, background)

    def _committed(self) -> Any:
        return None if self.in_transaction else (EMPTY_IMAGE._replace(offset=self.offset), "voters")

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        assert work is write_image_snapshot
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.running.append((arguments, done))
        return await done

    async def end(self, failure: Exception | None = None) -> None:
        (_, image, _, _), done = self.running[-1]
        if failure is None:
            done.set_result(SnapshotId(image.offset + 1, EPOCH))
        else:
            done.set_exception(failure)
        await turns()

    async def grown(self, size: int) -> None:
        self.log.bytes_since_snapshot += size
        self.snapshots.grown()
        await turns()


def test_snapshot_is_written_after_so_many_bytes() -> None:
    async def story() -> None:
        node = Writing()
        await node.grown(99)
        assert node.running == []
        await node.grown(1)
        ((directory, image, voters, _), _) = node.running[0]
        assert (directory, image.offset, voters, node.log.bytes_since_snapshot) == (Path("/d"), 9, "voters", 0)
        await node.grown(100)
        assert len(node.running) == 1, "one at a time"
        node.offset = 20
        await node.end()
        assert node.log.snapshots == [SnapshotId(10, EPOCH)] and node.tasks == [TASK]
        assert len(node.running) == 2, "what came meanwhile is enough for another one"
        await node.end()
        await node.grown(100)
        assert len(node.running) == 2, "nothing new is committed"
        node.offset = 21
        node.in_transaction = True
        await node.grown(0)
        assert len(node.running) == 2
        node.in_transaction = False
        await node.grown(0)
        assert len(node.running) == 3
        await node.end()

    simulated(story)


def test_failed_snapshot_is_tried_again_later() -> None:
    async def story() -> None:
        node = Writing()
        await node.grown(150)
        await node.end(OSError(28, "full"))
        assert (node.log.bytes_since_snapshot, node.tasks) == (150, [f"{TASK} failed"])
        await node.grown(500)
        assert len(node.running) == 1
        await after_ms(RETRY_MS - 1000)
        assert len(node.running) == 1
        await after_ms(1100)
        assert len(node.running) == 2 and node.log.bytes_since_snapshot == 0
        await node.end()
        assert node.tasks == [f"{TASK} failed", TASK]
        node.offset = 30
        await node.grown(100)
        assert len(node.running) == 3
        await node.end(OSError(28, "full"))
        await node.snapshots.stop()
        await after_ms(2 * RETRY_MS)
        assert len(node.running) == 3

    simulated(story)


def test_snapshot_is_written_at_an_interval_and_for_damage() -> None:
    async def story() -> None:
        node = Writing(interval_ms=10_000)
        node.snapshots.start()
        await after_ms(9990)
        assert node.running == []
        await after_ms(20)
        assert len(node.running) == 1
        await node.end()
        await after_ms(10_000)
        assert len(node.running) == 1, "nothing new is committed"
        node.offset = 15
        node.log.on_uncovered_damage()
        await turns()
        assert len(node.running) == 2
        stopping = asyncio.ensure_future(node.snapshots.stop())
        await turns()
        assert not stopping.done()
        await node.end()
        assert stopping.done()
        node.offset = 30
        await after_ms(30_000)
        node.log.on_uncovered_damage()
        await turns()
        assert len(node.running) == 2

    simulated(story)


def test_no_interval_means_no_timer() -> None:
    async def story() -> None:
        node = Writing(interval_ms=0)
        node.snapshots.start()
        await after_ms(3_600_000)
        assert node.running == []
        await node.snapshots.stop()

    simulated(story)


# ---- the end of the log at its last flush


def test_flushed_end_is_kept_and_claims_no_more_than_was_flushed(tmp_path: Path) -> None:
    end = FlushedEnd(tmp_path)
    assert (end.recorded, end.is_known, end.is_damaged) == (NOWHERE, False, False)
    end.flushed(RaftEnd(5, 2))
    assert end.is_known
    found = FlushedEnd(tmp_path)
    assert (found.recorded, found.is_known, found.is_damaged) == (RaftEnd(5, 2), True, False)
    assert [found.reaches(RaftEnd(*one)) for one in ((5, 2), (4, 2), (6, 2), (1, 3), (9, 1))] == [
        True, False, True, True, False,
    ]  # fmt: skip
    found.flushed(RaftEnd(3, 2))
    assert FlushedEnd(tmp_path).recorded == RaftEnd(5, 2), "a log that lost its end claims nothing less"
    found.flushed(RaftEnd(2, 3))
    assert FlushedEnd(tmp_path).recorded == RaftEnd(2, 3)
    assert (tmp_path / FLUSHED_END).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("before", "end", "recorded"),
    [
        (RaftEnd(8, 2), RaftEnd(3, 1), RaftEnd(3, 1)),
        (RaftEnd(8, 2), RaftEnd(5, 2), RaftEnd(5, 2)),
        (RaftEnd(8, 2), RaftEnd(6, 2), RaftEnd(5, 2)),
        (RaftEnd(4, 2), RaftEnd(3, 2), RaftEnd(5, 2)),
    ],
)
def test_truncation_by_the_leader_lowers_the_flushed_end(
    before: RaftEnd, end: RaftEnd, recorded: RaftEnd, tmp_path: Path
) -> None:
    FlushedEnd(tmp_path).flushed(RaftEnd(5, 2))
    found = FlushedEnd(tmp_path)
    found.truncating(before, end)
    assert FlushedEnd(tmp_path).recorded == found.recorded == recorded


def test_lower_end_is_on_the_disk_before_the_log_is_cut_and_a_higher_one_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a recorded end above the log's the next start would find the metadata lost."""
    synced: list[int] = []
    monkeypatch.setattr(flushed_end.os, "fdatasync", lambda fd: synced.append(os.fstat(fd).st_size))
    end = FlushedEnd(tmp_path)
    end.flushed(RaftEnd(5, 2))
    assert synced == [], "a flush of the log costs no other one"
    end.truncating(RaftEnd(8, 2), RaftEnd(3, 1))
    assert synced == [16]
    end.reset(RaftEnd(2, 0))
    assert synced == [16, 16]


@pytest.mark.parametrize("damage", ["flipped", "short", "long", "folder"])
def test_damaged_flushed_end_is_not_believed(damage: str, tmp_path: Path) -> None:
    FlushedEnd(tmp_path).flushed(RaftEnd(5, 2))
    path = tmp_path / FLUSHED_END
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[7] ^= 1
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    content = content[:-1] if damage == "short" else content + b"\0" if damage == "long" else content
    if damage != "folder":
        path.write_bytes(content)
    found = FlushedEnd(tmp_path)
    assert (found.recorded, found.is_damaged, found.is_known) == (NOWHERE, True, False)
    found.reset(RaftEnd(4, 0))
    assert FlushedEnd(tmp_path).recorded == RaftEnd(4, 0)


def test_flushes_and_the_close_of_the_log_move_its_flushed_end(tmp_path: Path) -> None:
    node = Log(tmp_path / "log")
    node.append(NoOpRecord())
    flush = node.log.prepare_flush()
    assert flush is not None
    node.append(NoOpRecord(), epoch=EPOCH + 1)
    flush.run()
    node.log.flushed(flush, 5)
    assert FlushedEnd(tmp_path).recorded == RaftEnd(1, EPOCH)
    node.log.flush(6)
    assert FlushedEnd(tmp_path).recorded == RaftEnd(2, EPOCH + 1)
    assert node.log.prepare_flush() is None
    node.append(NoOpRecord(), NoOpRecord(), epoch=EPOCH + 1)
    node.log.truncate(1, 7)
    assert FlushedEnd(tmp_path).recorded == RaftEnd(1, EPOCH)
    node.append(NoOpRecord(), epoch=EPOCH + 2)
    node.log.close(8)
    assert FlushedEnd(tmp_path).recorded == RaftEnd(2, EPOCH + 2)
    again = Log(tmp_path / "log")
    assert again.log.acknowledged is None and again.log.end == RaftEnd(2, EPOCH + 2)


@pytest.mark.parametrize(("ends", "offset"), [((), 0), ((0,), 0), ((4, 9), 9)])
def test_commits_begin_with_the_newest_snapshot(ends: tuple[int, ...], offset: int, tmp_path: Path) -> None:
    quorum_log = quorum_log_in(tmp_path)
    quorum_log.snapshots = [SnapshotId(end, 2) for end in ends]
    loaded = Loaded(MetadataDelta(EMPTY_IMAGE), MetadataTransactions(), 2, 8)
    commits = snapshot_commits(quorum_log, loaded)
    image = commits.image()
    assert (commits.offset, image.offset, image.epoch, image.last_append_timestamp_ms) == (offset, offset - 1, 2, 8)
    assert not commits.is_replaced and not commits.in_transaction
