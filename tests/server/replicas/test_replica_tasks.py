"""Tasks of a broker as a replica, in simulated time: ISR changes, throttles, fetchers, maintenance, cleaning and healing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from odradek.metadata.image import TOPIC_RESOURCE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import ConfigRecord
from odradek.protocol.messages.alter_partition import (
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
)
from odradek.protocol.records.errors import CorruptBatch
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.replicas import replication_quota
from odradek.server.replicas.cleaner import LogCleaner
from odradek.server.replicas.isr_changes import RETRY_MS, IsrChanges
from odradek.server.replicas.maintenance import LOGS_AT_A_TIME, LogMaintenance
from odradek.server.replicas.moves import bytes_from
from odradek.server.replicas.replication import Replication
from odradek.server.replicas.replication_quota import FOLLOWERS, LEADERS, ReplicationQuota
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.metadata_cache import MetadataCache
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.segments.damage import SegmentSuspected
from odradek.storage.segments.poison import PoisonedBatch

from tests.server.harness.held_disk import HeldDisk
from tests.server.harness.hosted import NOW_MS, TOPIC, TOPIC_ID, Hosted, Watching, batch, truncations
from tests.server.harness.images import image_with
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_background import NotedBackground
from tests.server.harness.noted_damage import NotedDamage
from tests.server.harness.noted_forwarding import NotedForwarding
from tests.server.harness.noted_maintenance import NotedMaintenance
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.set_clock import SetClock
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

OWN, SECOND, THIRD = 0, 2, 3
LAG_MS = 30_000


def properties(**values: str) -> BrokerConfig:
    return BrokerConfig({key.replace("_", "."): value for key, value in values.items()})


# ---- changes of the ISR


class Changing:
    """A leader of partitions whose followers lag. The test is the controller."""

    def __init__(self, path: Path, count: int = 1) -> None:
        forwarding = NotedForwarding()
        self.asked: list[Any] = forwarding.sent
        self.clock = loop_clock()
        self.changes = IsrChanges(OWN, lambda: 77, self.clock, Lazy(lambda: forwarding))
        self.hosted = [Hosted(path, OWN, index=index) for index in range(count)]
        for hosted in self.hosted:
            hosted.lead(SECOND, THIRD, now_ms=self.clock.now_ms() - LAG_MS - 10)
            hosted.append(batch(), NOW_MS)
            hosted.on_proposal = self.changes.propose

    def shrink(self, index: int = 0) -> None:
        self.hosted[index].shrink_isr(self.clock.now_ms())

    async def respond(self, *errors: int, isr: tuple[int, ...] = (OWN,), error: int = 0, epoch: int = 1) -> None:
        request, reply, _ = self.asked[-1]
        indexes = [one.partition_index for topic in request.topics for one in topic.partitions]
        data = [
            AlterPartitionResponsePartition(index, code, OWN, epoch, list(isr), 0, 9)
            for index, code in zip(indexes, errors)
        ]
        reply(AlterPartitionResponse(error_code=error, topics=[AlterPartitionResponseTopic(TOPIC_ID, data)]))
        await turns()


def test_proposal_has_the_epochs_of_the_partition_and_of_each_member(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Changing(tmp_path)
        hosted = harness.hosted[0]
        hosted.follower_fetched(SECOND, 1, 0, 55, harness.clock.now_ms())
        harness.shrink()
        assert harness.asked == []
        await turns()
        ((request, _, timeout_ms),) = harness.asked
        assert (request.broker_id, request.broker_epoch, timeout_ms) == (OWN, 77, 30_000)
        (topic,) = request.topics
        (one,) = topic.partitions
        assert (topic.topic_id, one.partition_index, one.leader_epoch, one.partition_epoch) == (TOPIC_ID, 0, 1, 0)
        assert one.new_isr == [OWN, SECOND]
        assert [(state.broker_id, state.broker_epoch) for state in one.new_isr_with_epochs] == [(OWN, 77), (SECOND, 55)]
        await harness.respond(0, isr=(OWN, SECOND))
        assert (hosted.role.isr, hosted.role.partition_epoch, hosted.role.proposal) == ((OWN, SECOND), 9, None)
        assert (harness.changes.shrinks, harness.changes.expands) == (1, 0)
        hosted.follower_fetched(THIRD, 1, 0, 66, harness.clock.now_ms())
        await turns()
        await harness.respond(0, isr=(OWN, SECOND, THIRD))
        assert (harness.changes.shrinks, harness.changes.expands) == (1, 1)
        await after_ms(1000)
        assert len(harness.asked) == 2

    simulated(story)


@pytest.mark.parametrize(
    ("error", "is_repeated", "is_withdrawn"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False, True),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, False, True),
        (ErrorCode.FENCED_LEADER_EPOCH, False, False),
        (ErrorCode.INVALID_UPDATE_VERSION, False, False),
        (ErrorCode.NEW_LEADER_ELECTED, False, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True, False),
        (ErrorCode.STALE_BROKER_EPOCH, True, False),
    ],
)
def test_rejected_proposal_is_withdrawn_kept_or_repeated(
    error: ErrorCode, is_repeated: bool, is_withdrawn: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Changing(tmp_path)
        harness.shrink()
        await turns()
        await harness.respond(error)
        role = harness.hosted[0].role
        assert (role.proposal is None) == is_withdrawn and len(role.isr) == 3
        await after_ms(RETRY_MS - 3)
        assert len(harness.asked) == 1
        await after_ms(6)
        assert len(harness.asked) == 1 + is_repeated
        assert (harness.changes.shrinks, harness.changes.expands) == (0, 0)

    simulated(story)


@pytest.mark.parametrize("failure", ["none", "whole"])
def test_request_that_fails_as_a_whole_is_repeated(failure: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Changing(tmp_path)
        harness.shrink()
        await turns()
        for count in range(1, 4):
            assert len(harness.asked) == count
            if failure == "none":
                harness.asked[-1][1](None)
            else:
                await harness.respond(0, error=ErrorCode.STALE_BROKER_EPOCH)
            await after_ms(RETRY_MS - 3)
            assert len(harness.asked) == count
            await after_ms(6)
        assert len(harness.hosted[0].role.isr) == 3

    simulated(story)


@pytest.mark.parametrize("event", ["newer metadata", "removed", "closed"])
def test_proposal_that_is_settled_otherwise_is_not_sent(event: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Changing(tmp_path)
        harness.shrink()
        hosted = harness.hosted[0]
        if event == "newer metadata":
            hosted.lead(SECOND, THIRD, partition_epoch=5)
        elif event == "removed":
            hosted.is_removed = True
        else:
            harness.changes.close()
        await after_ms(1000)
        assert harness.asked == []
        if event == "newer metadata":
            hosted.shrink_isr(harness.clock.now_ms() + LAG_MS + 10)
            await turns()
            assert len(harness.asked) == 1

    simulated(story)


def test_response_that_comes_after_newer_metadata_counts_and_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Changing(tmp_path, 2)
        harness.shrink(0)
        await turns()
        harness.shrink(1)
        hosted = harness.hosted[0]
        hosted.lead(SECOND, THIRD, isr=(OWN, SECOND), partition_epoch=12)
        await harness.respond(0)
        assert (hosted.role.isr, hosted.role.partition_epoch) == ((OWN, SECOND), 12)
        assert harness.changes.shrinks == 1
        assert [one.partition_index for one in harness.asked[-1][0].topics[0].partitions] == [1], "the next one follows"

    simulated(story)


# ---- the throttle


class Throttled:
    def __init__(self, keys: tuple[str, str], listed: str | None, rate: str | None = "100") -> None:
        config = properties(replication_quota_window_num="2")
        self.metadata = MetadataCache()
        self.clock = SetClock()
        self.quota = ReplicationQuota(OWN, config, self.clock, self.metadata, keys)
        if listed is not None:
            self.list_replicas(keys, listed)
        if rate is not None:
            config.take_dynamic({keys[0]: rate}, {})

    def list_replicas(self, keys: tuple[str, str], listed: str) -> None:
        records = [ConfigRecord(TOPIC_RESOURCE, topic, keys[1], listed) for topic in (TOPIC, "other")]
        self.metadata.image = image_with(*records)


@pytest.mark.parametrize("keys", [LEADERS, FOLLOWERS])
@pytest.mark.parametrize(
    ("listed", "is_listed"),
    [("*", True), ("7:0", True), ("6:0, 7:0", True), ("7:1", False), ("0:7", False), ("", False), (None, False)],
)
def test_replicas_that_the_topic_lists_are_throttled(
    keys: tuple[str, str], listed: str | None, is_listed: bool, tmp_path: Path
) -> None:
    harness = Throttled(keys, listed)
    hosted = Hosted(tmp_path, OWN, index=7)
    hosted.lead(SECOND, isr=(OWN,))
    assert harness.quota.throttles(hosted) == is_listed
    harness.quota.record(hosted, 1000)
    assert harness.quota.is_throttled(hosted, SECOND) == is_listed
    assert not harness.quota.is_throttled(hosted, OWN), "it is in the ISR"
    harness.clock.time_ms = 3000
    assert not harness.quota.is_throttled(hosted, SECOND), "the rate has gone down"


def test_quota_without_a_rate_is_off(tmp_path: Path) -> None:
    harness = Throttled(LEADERS, "*", None)
    hosted = Hosted(tmp_path, OWN)
    hosted.lead(SECOND, isr=(OWN,))
    assert not harness.quota.is_on
    harness.quota.record(hosted, 1 << 40)
    assert not harness.quota.is_throttled(hosted, SECOND)
    assert Throttled(LEADERS, "*", "0").quota.is_on


def test_rate_at_its_limit_is_not_exceeded(tmp_path: Path) -> None:
    harness = Throttled(LEADERS, "*")
    hosted = Hosted(tmp_path, OWN)
    hosted.lead(SECOND, isr=(OWN,))
    harness.quota.record(hosted, 100)
    assert not harness.quota.is_throttled(hosted, SECOND)
    harness.quota.record(hosted, 1)
    assert harness.quota.is_throttled(hosted, SECOND)


def test_changed_list_of_a_topic_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication_quota, "MAX_REMEMBERED_TOPICS", 1)
    harness = Throttled(LEADERS, "0:0")
    hosted = Hosted(tmp_path, OWN)
    assert harness.quota.throttles(hosted)
    harness.list_replicas(LEADERS, "0:1")
    assert not harness.quota.throttles(hosted)
    other = Hosted(tmp_path, OWN, topic="other")
    harness.quota.throttles(other)
    assert list(harness.quota._listed) == ["other"]


# ---- fetchers


class Fetcher:
    def __init__(self, leader: int, purpose: str) -> None:
        self.leader = leader
        self.purpose = purpose
        self.is_waiting = False
        self.followed: list[Any] = []
        self.is_closed = False

    def follow(self, followed: Any) -> None:
        self.followed.append(followed)

    def close(self) -> None:
        self.is_closed = True


class Replicating:
    def __init__(self, hosted: list[Hosted], fetchers: str = "1") -> None:
        self.fetchers: list[Fetcher] = []
        self.isr_changes = IsrChanges(OWN, lambda: 77, loop_clock(), Lazy(NotedForwarding))
        parts: Any = (
            properties(num_replica_fetchers=fetchers, replica_lag_time_max_ms="10000"), loop_clock(), hosted,
            self.isr_changes, (None, None), self._made, truncations(),
        )  # fmt: skip
        self.replication = Replication(*parts)

    def _made(self, leader: int, purpose: str) -> Fetcher:
        self.fetchers.append(Fetcher(leader, purpose))
        return self.fetchers[-1]


def test_partition_is_followed_by_a_fetcher_that_is_free(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = [Hosted(tmp_path, OWN, index=index) for index in range(3)]
        for one in hosted:
            one.follow_leader(SECOND)
        harness = Replicating(hosted)
        for one in hosted:
            harness.replication.follow(one)
            harness.fetchers[0].is_waiting = one is hosted[0]
        assert [len(one.followed) for one in harness.fetchers] == [2, 1]
        assert [one.purpose for one in harness.fetchers] == ["fetcher-0-0-of-2", "fetcher-0-1-of-2"]
        for one in harness.fetchers:
            one.is_waiting = True  # type: ignore[attr-defined]
        harness.replication.follow(hosted[0])
        assert [len(one.followed) for one in harness.fetchers] == [3, 1]
        other = Hosted(tmp_path, OWN, index=9)
        other.follow_leader(THIRD)
        harness.replication.follow(other)
        assert [one.leader for one in harness.fetchers] == [SECOND, SECOND, THIRD]
        harness.replication.close()
        assert all(one.is_closed for one in harness.fetchers) and harness.isr_changes._is_closed
        harness.replication.follow(other)
        assert len(harness.fetchers[2].followed) == 1

    simulated(story)


def test_several_fetchers_share_the_partitions(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = [Hosted(tmp_path, OWN, index=index) for index in range(8)]
        harness = Replicating(hosted, "4")
        for one in hosted:
            one.follow_leader(SECOND)
            harness.replication.follow(one)
        assert sorted(len(one.followed) for one in harness.fetchers) == [2, 2, 2, 2]

    simulated(story)


@pytest.mark.parametrize("state", ["leader", "no leader", "offline"])
def test_replica_without_a_leader_elsewhere_is_not_followed(state: str, tmp_path: Path) -> None:
    async def story() -> None:
        hosted = Hosted(tmp_path, OWN)
        if state == "leader":
            hosted.lead(SECOND)
        else:
            hosted.follow_leader(-1 if state == "no leader" else SECOND)
        hosted.offline = state == "offline"
        harness = Replicating([hosted])
        harness.replication.follow(hosted)
        assert harness.fetchers == []

    simulated(story)


def test_followers_that_lag_are_looked_for_at_half_of_their_time(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = [Hosted(tmp_path, OWN, index=index) for index in range(4)]
        now_ms = loop_clock().now_ms()
        hosted[0].lead(SECOND, now_ms=now_ms)
        hosted[1].lead(SECOND, now_ms=now_ms, isr=(OWN,))
        hosted[2].lead(SECOND, now_ms=now_ms)
        hosted[2].offline = True
        hosted[3].follow_leader(SECOND)
        calls: list[int] = []
        for one in hosted:
            kind = type("Shrinking", (Hosted,), {"shrink_isr": lambda self, now_ms: calls.append(self.index)})
            one.__class__ = kind
        harness = Replicating(hosted)
        await after_ms(4990)
        assert calls == []
        await after_ms(20)
        assert calls == [0]
        await after_ms(5000)
        assert calls == [0, 0]
        harness.replication.close()
        await after_ms(20_000)
        assert calls == [0, 0]

    simulated(story)


# ---- maintenance


class Maintained:
    """The maintenance of some partitions, whose disk works at once."""

    def __init__(self, hosted: list[Hosted], kind: type[LogMaintenance] = LogMaintenance, **config: str) -> None:
        self.background = NotedBackground()
        self.partitions = NotedPartitions(hosted)
        self.maintenance = kind(properties(**config), loop_clock(), self.partitions, HeldDisk(), self.background)


def test_each_task_of_maintenance_runs_at_its_interval() -> None:
    runs: list[str] = []
    names = (
        "delete_old_segments", "remove_files", "flush_what_is_due", "write_checkpoints", "write_high_watermarks",
        "expire_producers",
    )  # fmt: skip

    class Tasks(LogMaintenance):
        """Notes its tasks instead of doing them."""

    for name in names:

        async def work(self: Any, name: str = name) -> None:
            runs.append(name)

        work.__name__ = name
        setattr(Tasks, name, work)

    async def story() -> None:
        harness = Maintained(
            [],
            Tasks,
            log_retention_check_interval_ms="40000",
            log_flush_scheduler_interval_ms="9000",
            log_flush_offset_checkpoint_interval_ms="20000",
            replica_high_watermark_checkpoint_interval_ms="30000",
            producer_id_expiration_check_interval_ms="60000",
        )
        harness.maintenance.start()
        await after_ms(60_500)
        assert [runs.count(name) for name in names] == [1, 60, 12, 3, 2, 1]
        await harness.maintenance.stop()
        await after_ms(60_000)
        assert len(runs) == 79
        assert {"delete old segments", "remove files"} <= set(harness.background.attempts)

    simulated(story)


def test_failed_maintenance_is_reported_and_goes_on() -> None:
    failure = LogDirectoryFailure("/d", "x", OSError(5, "broken"))
    failures: list[Exception] = [failure, RuntimeError("a bug")]

    class FailingMaintenance(LogMaintenance):
        async def remove_files(self) -> None:
            if failures:
                raise failures.pop(0)

    async def story() -> None:
        harness = Maintained([], FailingMaintenance)
        harness.maintenance.start()
        await after_ms(3500)
        assert harness.partitions.failures == [failure]
        assert [one for one in harness.background.attempts if one.startswith("remove")] == [
            "remove files failed",
            "remove files",
        ]
        await harness.maintenance.stop()

    simulated(story)


def test_logs_are_looked_at_some_at_a_time_and_one_failure_ends_its_own_only(tmp_path: Path) -> None:
    async def story() -> None:
        failure = LogDirectoryFailure("/d", "x", OSError(5, "broken"))
        hosted = [Hosted(tmp_path, OWN, index=index) for index in range(2 * LOGS_AT_A_TIME)]
        hosted[1].offline = hosted[2].is_removed = True
        seen: list[int] = []

        def look(one: Any) -> None:
            if one.index == 3:
                raise failure
            seen.append(one.index)

        harness = Maintained(hosted)
        task = asyncio.ensure_future(harness.maintenance._over_logs(look))
        await asyncio.sleep(0)
        assert seen[-1] == LOGS_AT_A_TIME - 2
        await task
        assert seen == [0, *range(4, 2 * LOGS_AT_A_TIME)]
        assert [one.failures for one in hosted] == [[failure] if index == 3 else [] for index in range(len(hosted))]

    simulated(story)


def test_old_segments_are_deleted_and_readers_woken(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = Hosted(tmp_path, OWN, segment_bytes=100, retention_bytes=0, retention_ms=-1, file_delete_delay_ms=5000)
        hosted.lead()
        for _ in range(4):
            hosted.append(batch(), loop_clock().now_ms())
        watching = Watching()
        hosted.watchers[watching] = None
        harness = Maintained([hosted])
        files = lambda: len(list(Path(hosted.log.path).glob("*.log*")))  # noqa: E731
        assert files() == 4
        await harness.maintenance.delete_old_segments()
        assert hosted.log.log_start_offset > 0 and watching.changes == 1
        before = files()
        await harness.maintenance.remove_files()
        assert files() == before == 5, "a new segment, and those that are deleted later"
        await after_ms(5100)
        await harness.maintenance.remove_files()
        assert files() == 1 and not harness.maintenance._with_removed_segments
        await harness.maintenance.delete_old_segments()
        assert watching.changes == 1

    simulated(story)


# ---- the cleaner


class Cleaning:
    def __init__(
        self, hosted: list[Hosted], kind: type[LogCleaner] = LogCleaner, *, rewritten: Hosted | None = None
    ) -> None:
        self.damage = NotedDamage()
        self.background = NotedBackground()
        config = properties(log_cleaner_backoff_ms="1000")
        node = node_of(config, clock=loop_clock(), damage=self.damage, background=self.background)
        self.cleaner = kind(node, NotedPartitions(hosted), NotedMaintenance(), lambda one: one is rewritten)


def poisoned(offset: int, last: int) -> PoisonedBatch:
    return PoisonedBatch(offset, last, "a bomb")


def test_poisoned_batches_are_noted_by_offset_and_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        harness = Cleaning([])
        hosted = Hosted(tmp_path, OWN, topic="t")
        note = harness.cleaner.note_poisoned
        note(hosted, [poisoned(5, 6), poisoned(20, 20)], 0, 30)
        note(hosted, [poisoned(5, 6)], 0, 20)
        assert sorted(harness.cleaner.poisoned["t", 0]) == [5, 20]
        note(hosted, [], 0, 20)
        assert sorted(harness.cleaner.poisoned["t", 0]) == [20]
        note(hosted, [], 20, 21)
        assert harness.cleaner.poisoned == {}

    simulated(story)
    said = [record.getMessage() for record in caplog.records if "poisoned" in record.getMessage()]
    assert len(said) == 2 and "offsets 5 to 6" in said[0] and "offsets 20 to 20" in said[1]


@pytest.mark.parametrize(
    ("failure", "goes_on", "is_left"),
    [
        (LogDirectoryFailure("/d", "x", OSError(5, "broken")), True, False),
        (SegmentSuspected(0, "suspect"), False, False),
        (CorruptBatch("rot"), True, True),
    ],
)
def test_log_that_cannot_be_cleaned_is_left_as_its_failure_needs(
    failure: Exception, goes_on: bool, is_left: bool, tmp_path: Path
) -> None:
    class FailingCleaner(LogCleaner):
        async def _dirtiest(self) -> Any:
            [hosted] = self._partitions
            return (hosted, None) if self._may_clean(hosted) else None

        async def _clean(self, hosted: Any, dirt: Any) -> bool:
            assert self.works_on(hosted)
            raise failure

    async def story() -> None:
        hosted = Hosted(tmp_path, OWN)
        noted = hosted.failures
        hosted.on_damage = lambda hosted, damage: noted.append(damage)
        harness = Cleaning([hosted], FailingCleaner)
        assert await harness.cleaner.clean_one() == goes_on
        assert not harness.cleaner.works_on(hosted)
        assert noted == ([] if is_left else [failure])
        assert len(harness.damage.said) == int(isinstance(failure, SegmentSuspected))
        assert await harness.cleaner.clean_one() == (goes_on and not is_left)
        hosted.is_removed = True
        assert not await harness.cleaner.clean_one()

    simulated(story)


def test_log_that_another_part_rewrites_is_not_cleaned(tmp_path: Path) -> None:
    async def story() -> None:
        hosted, other = (Hosted(tmp_path, OWN, index=index) for index in range(2))
        other.offline = True
        harness = Cleaning([hosted, other], rewritten=hosted)
        assert not harness.cleaner._may_clean(hosted) and not harness.cleaner._may_clean(other)
        other.offline = False
        assert harness.cleaner._may_clean(other)
        other.is_removed = True
        assert not harness.cleaner._may_clean(other)

    simulated(story)


def test_cleaner_cleans_until_nothing_is_dirty_and_then_waits() -> None:
    outcomes: list[Any] = [True, True, False, RuntimeError("a bug"), False]
    calls: list[float] = []

    class ScriptedCleaner(LogCleaner):
        async def clean_one(self) -> bool:
            calls.append(asyncio.get_running_loop().time())
            outcome = outcomes.pop(0) if outcomes else False
            if isinstance(outcome, Exception):
                raise outcome
            return bool(outcome)

    async def story() -> None:
        harness = Cleaning([], ScriptedCleaner)
        began = asyncio.get_running_loop().time()
        harness.cleaner.start()
        await after_ms(3100)
        assert [round(one - began) for one in calls] == [1, 1, 1, 2, 3]
        assert harness.background.attempts == ["log cleaner", "log cleaner failed", "log cleaner"]
        await harness.cleaner.stop()
        await after_ms(3000)
        assert len(calls) == 5

    simulated(story)


# ---- moves


def test_bytes_of_a_log_are_counted_from_an_offset_on(tmp_path: Path) -> None:
    one = len(batch())
    hosted = Hosted(tmp_path, OWN, segment_bytes=2 * one)
    hosted.lead()
    for _ in range(5):
        hosted.append(batch(), NOW_MS)
    assert [bytes_from(hosted.log, offset) // one for offset in range(7)] == [5, 4, 3, 2, 1, 0, 0]
