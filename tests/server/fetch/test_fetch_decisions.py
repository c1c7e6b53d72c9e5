"""A Fetch in simulated time on replicas without a broker: when its response is due, and what it has for each partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.isolation import READ_COMMITTED
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from odradek.server.fetch.damaged_reads import MOST_INSPECTIONS
from odradek.server.fetch.fetch_context import ABSENT_PARTITIONS, FetchContext
from odradek.server.fetch.fetch_sessions import EVICTION_MS, LARGE_FETCH, FetchSessions, is_large_fetch
from odradek.server.fetch.follower_fetch import FollowerFetch, IdleFollower
from odradek.server.partitions.parked_requests import BUCKET_MS
from odradek.server.partitions.remote_port import RemoteRecords
from odradek.server.partitions.transaction_marker import Marker
from odradek.server.runtime.sliced_work import run_to_completion
from odradek.storage.files.page_cache import pread_nowait
from odradek.storage.log.config import LogConfig
from odradek.storage.segments.damage import DamagedRange, OffsetDamaged, SegmentSuspected

from tests.server.harness.fetching import (
    FOLLOWER,
    LAG_MS,
    ONE,
    OWN,
    THIRD,
    Harness,
    ask,
    produced,
)
from tests.server.harness.hosted import NOW_MS, TOPIC_ID, batch
from tests.server.harness.noted_fetches import NotedFetches
from tests.server.harness.virtual_time import after_ms, simulated, turns

# ---- when it is due


def test_fetch_is_due_with_its_least_bytes(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2)
        harness.hosted[0].append(produced(), NOW_MS)
        harness.fetch(ask(0), ask(1), min_bytes=ONE)
        assert harness.sizes() == {0: ONE, 1: 0} and harness.calls.held == 0
        harness.fetch(ask(0), ask(1), min_bytes=3 * ONE)
        assert len(harness.responses) == 1 and harness.calls.held == 1
        harness.hosted[1].append(produced(), NOW_MS)
        await turns()
        assert len(harness.responses) == 1
        harness.hosted[0].append(produced(), NOW_MS)
        harness.hosted[1].append(produced(), NOW_MS)
        assert len(harness.responses) == 1, "in the next turn, with all of this one"
        await turns()
        assert harness.sizes() == {0: 2 * ONE, 1: 2 * ONE}
        assert not harness.hosted[0].watchers and not harness.hosted[1].watchers
        await after_ms(1000)
        assert len(harness.responses) == 2

    simulated(story)


def test_fetch_is_due_at_its_deadline_with_what_there_is(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.hosted[0].append(produced(), NOW_MS)
        harness.fetch(ask(), min_bytes=1000, max_wait_ms=300)
        await after_ms(299)
        assert harness.responses == []
        await after_ms(BUCKET_MS + 2)
        assert harness.sizes() == {0: ONE} and not harness.hosted[0].watchers
        harness.fetch(ask(offset=1), min_bytes=1000, max_wait_ms=0)
        assert harness.sizes() == {0: 0}
        harness.fetch(min_bytes=1000)
        assert len(harness.responses) == 3, "it asks for nothing"
        harness.fetch(ask(offset=1), min_bytes=0)
        assert len(harness.responses) == 4

    simulated(story)


@pytest.mark.parametrize(
    ("partition", "error"),
    [
        (ask(7), ErrorCode.UNKNOWN_TOPIC_ID),
        (ask(offset=9), ErrorCode.OFFSET_OUT_OF_RANGE),
        (ask(epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (ask(epoch=2), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_error_of_a_partition_is_due_at_once(partition: FetchPartition, error: ErrorCode, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2)
        harness.fetch(ask(1), partition, min_bytes=1000)
        found = {one.partition_index: one for one in harness.data()}
        one = found[partition.partition]
        assert (one.error_code, one.high_watermark, one.last_stable_offset, one.log_start_offset) == (error, -1, -1, -1)
        assert found[1].error_code == 0
        assert harness.hosted[0].counters.failed_fetches == int(partition.partition == 0)
        assert harness.hosted[1].counters.fetches == 1

    simulated(story)


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (2, ErrorCode.OFFSET_OUT_OF_RANGE)]
)
@pytest.mark.parametrize("offset", [0, 4])
def test_follower_does_not_decide_that_an_offset_is_out_of_range(
    offset: int, epoch: int, error: ErrorCode, tmp_path: Path
) -> None:
    """A consumer with old metadata and no epoch would begin at its `auto.offset.reset` while the leader has the offset."""

    async def story() -> None:
        harness = Harness(tmp_path)
        hosted = harness.hosted[0]
        for _ in range(3):
            hosted.append(produced(), NOW_MS)
        hosted.advance_log_start_offset(1)
        harness.fetch(ask(offset=offset), min_bytes=1000)
        assert harness.data()[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE, "the leader knows"
        hosted.follow_leader(THIRD, epoch=2)
        harness.fetch(ask(offset=offset, epoch=epoch), min_bytes=1000)
        assert harness.data()[0].error_code == error and len(harness.responses) == 2, "it is due at once"
        for inside in (1, 3):
            harness.fetch(ask(offset=inside, epoch=epoch), max_wait_ms=0)
            assert harness.data()[0].error_code == 0, "consumers read from followers"

    simulated(story)


def test_connection_that_has_ended_gets_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.fetch(ask())
        harness.connection.closed = True
        harness.hosted[0].append(produced(), NOW_MS)
        await after_ms(1000)
        assert harness.responses == [] and not harness.hosted[0].watchers

    simulated(story)


# ---- what it has


def test_limits_hold_for_all_and_each_but_the_first_batch_is_whole(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 3, max_bytes=5 * ONE)
        for hosted in harness.hosted:
            for _ in range(4):
                hosted.append(produced(), NOW_MS)
        harness.fetch(ask(0, max_bytes=2 * ONE), ask(1), ask(2))
        assert harness.sizes() == {0: 2 * ONE, 1: 3 * ONE, 2: 0}
        harness.fetch(ask(0, max_bytes=2 * ONE), ask(1), ask(2), max_bytes=3 * ONE)
        assert harness.sizes() == {0: 2 * ONE, 1: ONE, 2: 0}
        harness.fetch(ask(0, max_bytes=1), ask(1, max_bytes=1))
        assert harness.sizes() == {0: ONE, 1: 0}
        harness.fetch(ask(0, max_bytes=0), ask(1, max_bytes=ONE), max_bytes=1)
        assert harness.sizes() == {0: ONE, 1: 0}
        assert harness.hosted[0].counters.bytes_out == 6 * ONE

    simulated(story)


def test_consumer_reads_what_is_committed_and_a_follower_all(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, followers=(FOLLOWER,))
        hosted = harness.hosted[0]
        hosted.append(produced(), NOW_MS)
        harness.fetch(ask(), max_wait_ms=0)
        assert harness.sizes() == {0: 0}
        harness.fetch(ask(), max_wait_ms=0, replica=FOLLOWER)
        assert harness.sizes() == {0: ONE} and hosted.high_watermark == 0
        harness.fetch(ask(offset=1), max_wait_ms=0, replica=FOLLOWER)
        assert hosted.high_watermark == 1
        assert harness.data()[0].high_watermark == 1
        harness.fetch(ask(), max_wait_ms=0)
        assert harness.sizes() == {0: ONE}
        harness.fetch(ask(), max_wait_ms=0, replica=THIRD)
        assert harness.data()[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        harness.fetch(ask(epoch=1), max_wait_ms=0, replica=THIRD)
        assert harness.data()[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    simulated(story)


@pytest.mark.parametrize("isolation", [0, READ_COMMITTED])
def test_open_transaction_hides_records_from_read_committed(isolation: int, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        hosted = harness.hosted[0]
        hosted.append(produced(), NOW_MS)
        sent = produced(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        hosted.append(sent, NOW_MS, is_in_transaction=True)
        harness.fetch(ask(), isolation=isolation)
        (one,) = harness.data()
        assert (one.high_watermark, one.last_stable_offset) == (2, 1)
        assert len(one.records or b"") == (ONE if isolation else ONE + len(sent))
        assert one.aborted_transactions == ([] if isolation else None)
        harness.fetch(ask(offset=1), isolation=isolation, max_wait_ms=400)
        assert len(harness.responses) == (1 if isolation else 2)
        hosted.end_transaction(Marker(7, 0, False, 1, 1), NOW_MS)
        await turns()
        (one,) = harness.data(1)
        aborted = [(found.producer_id, found.first_offset) for found in one.aborted_transactions or []]
        assert aborted == ([(7, 1)] if isolation else [])

    simulated(story)


def test_deleted_records_are_out_of_range_and_the_end_is_not(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        hosted = harness.hosted[0]
        for _ in range(3):
            hosted.append(produced(), NOW_MS)
        hosted.advance_log_start_offset(2)
        for offset, error in ((1, 1), (2, 0), (3, 0), (4, 1)):
            harness.fetch(ask(offset=offset), max_wait_ms=0)
            assert harness.data()[0].error_code == error
        assert [one.log_start_offset for one in harness.data(-2)] == [2]

    simulated(story)


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [(3, 2, None), (2, 1, None), (3, 1, (1, 2)), (5, 2, (2, 4)), (4, 2, None), (0, 0, None), (2, 0, (0, 0))],
)
def test_response_has_the_offset_at_which_the_logs_diverge(
    offset: int, last_epoch: int, diverging: tuple[int, int] | None, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        hosted = harness.hosted[0]
        hosted.log.append(batch(2, epoch=1), None, NOW_MS)
        hosted.log.append(batch(2, offset=2, epoch=2), None, NOW_MS)
        hosted.role.appended(4, NOW_MS)
        harness.fetch(ask(offset=offset, last_epoch=last_epoch), min_bytes=10_000, max_wait_ms=100)
        assert len(harness.responses) == (1 if diverging else 0), "a divergence is due at once"
        await after_ms(120)
        (one,) = harness.data()
        found = (one.diverging_epoch.epoch, one.diverging_epoch.end_offset)
        assert found == (diverging or (-1, -1))
        assert bool(one.records) == (diverging is None and offset < 4)

    simulated(story)


@pytest.mark.parametrize("nearer", [-1, THIRD])
@pytest.mark.parametrize("rack", ["", "a"])
def test_consumer_is_sent_to_a_nearer_replica(nearer: int, rack: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.selector.nearer = nearer
        harness.hosted[0].append(produced(), NOW_MS)
        for isolation in (0, READ_COMMITTED):
            harness.fetch(ask(offset=1), rack=rack, min_bytes=100, isolation=isolation, max_wait_ms=50)
            is_sent = nearer >= 0 and rack != ""
            assert bool(harness.responses) == is_sent
            await after_ms(100)
            (one,) = harness.data()
            assert one.preferred_read_replica == (nearer if is_sent else -1)
            assert (one.high_watermark, one.last_stable_offset, one.log_start_offset) == (1, 1, 0)
            assert one.aborted_transactions == ([] if isolation else None)
            harness.responses.clear()
        harness.fetch(ask(offset=1), rack=rack, replica=FOLLOWER, max_wait_ms=0)
        assert harness.data()[0].preferred_read_replica == -1

    simulated(story)


@pytest.mark.parametrize("version", [10, 11])
def test_consumer_of_an_old_version_reads_from_leaders_only(version: int, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.hosted[0].follow_leader(9, epoch=2)
        harness.fetch(ask(), version=version, max_wait_ms=0)
        assert harness.data()[0].error_code == (ErrorCode.NOT_LEADER_OR_FOLLOWER if version < 11 else 0)

    simulated(story)


@pytest.mark.parametrize(("version", "error"), [(5, 6), (6, 56)])
def test_old_versions_know_no_error_of_the_disk(version: int, error: int, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.hosted[0].offline = True
        harness.fetch(ask(), version=version)
        assert harness.data()[0].error_code == error

    simulated(story)


@pytest.mark.parametrize(("version", "has_leaders"), [(15, False), (16, True)])
def test_partition_that_another_broker_leads_has_its_leader(version: int, has_leaders: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 3)
        for hosted in harness.hosted[:2]:
            hosted.follow_leader(9, epoch=4)
        harness.fetch(ask(0, epoch=3), ask(1, epoch=3), ask(2), version=version)
        leaders = [(one.current_leader.leader_id, one.current_leader.leader_epoch) for one in harness.data()]
        assert leaders == ([(9, 4), (9, 4), (-1, -1)] if has_leaders else [(-1, -1)] * 3)
        nodes = [(one.node_id, one.host, one.port) for one in harness.responses[-1].node_endpoints]
        assert nodes == ([(9, "h", 1)] if has_leaders else [])

    simulated(story)


# ---- damage


@pytest.mark.parametrize("is_healing", [True, False])
def test_read_of_damaged_records_waits_while_they_are_healed(is_healing: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        hosted = harness.hosted[0]
        hosted.append(produced(), NOW_MS)
        if is_healing:
            hosted.is_healing = True
        hosted.log.fail("read", OffsetDamaged("p", DamagedRange("f", 0, 1, 0, 1, "rot")))
        harness.fetch(ask(), max_wait_ms=50)
        if is_healing:
            assert harness.responses == [] and harness.scrubber.calls == []
            hosted.log.before.clear()
            hosted.wake_readers()
            await turns()
            assert harness.sizes() == {0: ONE}
        else:
            assert harness.data()[0].error_code == ErrorCode.CORRUPT_MESSAGE
            assert harness.scrubber.calls == [("met", 0)]

    simulated(story)


def test_suspected_segment_is_inspected_before_the_response(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        hosted = harness.hosted[0]
        hosted.append(produced(), NOW_MS)
        hosted.log.fail("read", SegmentSuspected(40, "suspect"))
        harness.fetch(ask(), max_wait_ms=50)
        for count in range(1, MOST_INSPECTIONS + 1):
            assert harness.responses == [] and len(harness.scrubber.inspecting) == count
            await after_ms(100)
            harness.scrubber.inspecting[-1]()
        assert harness.scrubber.calls == [("inspect", 0, 40)] * MOST_INSPECTIONS + [("met", 0)]
        assert harness.data()[0].error_code == ErrorCode.CORRUPT_MESSAGE

    simulated(story)


def test_second_fetch_of_an_offset_by_a_follower_is_a_doubt(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, followers=(FOLLOWER, THIRD))
        hosted = harness.hosted[0]
        hosted.append(produced(), NOW_MS)
        hosted.append(produced(), NOW_MS)
        for replica, offset in ((FOLLOWER, 0), (THIRD, 0), (FOLLOWER, 1), (FOLLOWER, 2), (THIRD, 0)):
            harness.fetch(ask(offset=offset), replica=replica, max_wait_ms=0)
        assert harness.scrubber.calls == [("doubt", 0, 0)] and hosted.last_read_offsets == {FOLLOWER: 1, THIRD: 0}

    simulated(story)


def test_throttled_follower_gets_no_records(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, followers=(FOLLOWER,))
        harness.hosted[0].append(produced(), NOW_MS)
        harness.quota.is_on = True
        harness.fetch(ask(), replica=FOLLOWER, max_wait_ms=0)
        assert harness.quota.recorded == [ONE]
        harness.quota.throttled = True
        harness.fetch(ask(), replica=FOLLOWER, max_wait_ms=0)
        assert harness.sizes() == {0: 0} and harness.quota.recorded == [ONE]
        harness.hosted[0].follow(0, 0)
        harness.quota.is_on = False
        harness.fetch(ask(), replica=FOLLOWER, max_wait_ms=0)
        assert harness.sizes() == {0: ONE} and harness.quota.recorded == [ONE]

    simulated(story)


# ---- bytes that are not in memory


@pytest.mark.parametrize("warmings", [1, 3])
def test_cold_bytes_are_read_by_a_thread_and_then_sent(
    warmings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.hosted[0].append(produced(), NOW_MS)
        slice_class = type(harness.hosted[0].log.read(0, 1000))
        monkeypatch.setattr(slice_class, "bytes_nowait", lambda self: None)
        harness.fetch(ask(), max_wait_ms=30)
        for count in range(1, warmings + 1):
            assert len(harness.disk) == count and harness.responses == []
            await after_ms(100)
            work, then = harness.disk[-1]
            work()
            if count == 1 and warmings == 1:
                monkeypatch.undo()
            then(None)
        assert harness.sizes() == {0: ONE} and len(harness.disk) == warmings
        await after_ms(100)
        assert len(harness.responses) == 1 and not harness.hosted[0].watchers

    simulated(story)


class EmptyRemote:
    """A store whose segment has no batch at its end: the local log has the next one."""

    fetch_max_wait_ms = 500

    def __init__(self, next_offset: int) -> None:
        self._next_offset = next_offset

    def take_finished(self, *_: Any, isolated: bool) -> RemoteRecords:
        return RemoteRecords(0, next_offset=self._next_offset)

    def throttled_ms(self) -> int:
        return 0


def tiered(path: Path) -> tuple[Harness, NotedFetches]:
    """Returns a partition with records 0 to 2 in the store, of which 2 is compacted away, and 3 and 4 on the disk."""
    harness = Harness(path)
    hosted = harness.hosted[0]
    for _ in range(3):
        hosted.append(produced(), NOW_MS)
    hosted.log.roll(NOW_MS)
    for _ in range(2):
        hosted.append(produced(), NOW_MS)
    hosted.log.config = LogConfig(remote_storage=True)
    hosted.log.remove_first(1, NOW_MS)
    harness.partitions.remote = EmptyRemote(3)
    return harness, hosted


def test_records_behind_an_empty_end_in_the_store_are_read_by_a_thread_if_cold(tmp_path: Path) -> None:
    async def story() -> None:
        harness, hosted = tiered(tmp_path)
        reads: list[int] = []

        def cold_at_first(offset: int, *rest: Any) -> None:
            reads.append(offset)
            if offset == 3 and len(reads) == 2:
                assert rest[-1] is pread_nowait, "the loop would wait for the disk"
                raise BlockingIOError

        hosted.log.before["read"] = cold_at_first
        harness.fetch(ask(offset=2), isolation=READ_COMMITTED)
        assert harness.responses == [] and len(harness.disk) == 1
        harness.disk[0][1](None)
        assert harness.sizes() == {0: 2 * ONE}

    simulated(story)


def test_suspected_records_behind_an_empty_end_in_the_store_are_inspected(tmp_path: Path) -> None:
    async def story() -> None:
        harness, hosted = tiered(tmp_path)

        def suspected(offset: int, *rest: Any) -> None:
            if offset == 3:
                raise SegmentSuspected(3, "suspect")

        hosted.log.before["read"] = suspected
        harness.fetch(ask(offset=2))
        assert harness.responses == [] and harness.scrubber.calls == [("inspect", 0, 3)]

    simulated(story)


# ---- sessions of a consumer


def begun(harness: Harness, *asked: FetchPartition, replica: int = -1) -> int:
    harness.fetch(*asked, session=(0, 0), max_wait_ms=0, replica=replica)
    return harness.responses[-1].session_id


def test_session_answers_with_what_changed(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 3)
        for hosted in harness.hosted:
            hosted.append(produced(), NOW_MS)
        session = begun(harness, ask(0, 1), ask(1, 1), ask(2, 1))
        assert session > 0 and sorted(harness.sizes()) == [0, 1, 2]
        harness.fetch(session=(session, 1), max_wait_ms=100)
        assert len(harness.responses) == 1
        harness.hosted[1].append(produced(), NOW_MS)
        await turns()
        assert (harness.sizes(), harness.responses[-1].session_id) == ({1: ONE}, session)
        harness.fetch(ask(1, 2), session=(session, 2), max_wait_ms=0)
        assert harness.sizes() == {}
        harness.hosted[2].advance_log_start_offset(1)
        harness.fetch(session=(session, 3), max_wait_ms=0)
        assert [(one.partition_index, one.log_start_offset) for one in harness.data()] == [(2, 1)]
        harness.hosted[0].offline = True
        for epoch in (4, 5):
            harness.fetch(session=(session, epoch), max_wait_ms=0)
            assert [(one.partition_index, one.error_code) for one in harness.data()] == [(0, 56)], "as long as it lasts"
        harness.hosted[0].offline = False
        harness.fetch(session=(session, 6), max_wait_ms=0)
        assert [(one.partition_index, one.error_code) for one in harness.data()] == [(0, 0)], "it has ended"

    simulated(story)


def test_partition_that_gave_data_comes_last(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 3)
        for hosted in harness.hosted:
            for _ in range(2):
                hosted.append(produced(), NOW_MS)
        session = begun(harness, ask(0, 2), ask(1, 2), ask(2, 2))
        harness.fetch(ask(0), ask(1), ask(2), session=(session, 1), max_bytes=1)
        assert harness.sizes() == {0: ONE}
        harness.fetch(session=(session, 2), max_bytes=1)
        assert harness.sizes() == {1: ONE}
        harness.fetch(session=(session, 3), max_bytes=1)
        assert harness.sizes() == {2: ONE}

    simulated(story)


def test_request_that_another_has_overtaken_is_an_error(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        session = begun(harness, ask(0))
        harness.fetch(session=(session, 1), max_wait_ms=100)
        harness.fetch(session=(session, 2), max_wait_ms=0)
        await after_ms(120)
        assert harness.responses[-1].error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert harness.responses[-1].session_id == session

    simulated(story)


# ---- sessions of a follower


def test_partitions_of_a_follower_that_has_everything_are_not_looked_at(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2, followers=(FOLLOWER,))
        session_id = begun(harness, ask(0), ask(1), replica=FOLLOWER)
        session = harness.sessions.get(session_id)
        assert session is not None and len(session.active_partitions) == 2
        harness.fetch(session=(session_id, 1), replica=FOLLOWER)
        assert session.active_partitions == {} and harness.responses[1:] == []
        assert [type(one) for hosted in harness.hosted for one in hosted.end_watchers] == [IdleFollower] * 2
        harness.hosted[1].append(produced(), NOW_MS)
        assert list(session.active_partitions) == [(TOPIC_ID, 1)]
        await turns()
        assert harness.sizes() == {1: ONE}
        harness.fetch(ask(1, 1), session=(session_id, 2), replica=FOLLOWER, max_wait_ms=0)
        assert [(one.partition_index, one.high_watermark) for one in harness.data()] == [(1, 1)]
        harness.fetch(session=(session_id, 3), replica=FOLLOWER)
        assert session.active_partitions == {} and session.parked is not None
        harness.hosted[0].lead(FOLLOWER, epoch=2, partition_epoch=3)
        assert list(session.active_partitions) == [(TOPIC_ID, 0)]
        await after_ms(600)
        assert session.parked is None and session.active_partitions == {}

    simulated(story)


@pytest.mark.parametrize("follower", [0, 2])
def test_new_log_start_is_due_at_once_for_a_follower_of_any_id(follower: int, tmp_path: Path) -> None:
    """DeleteRecords waits for it."""

    async def story() -> None:
        harness = Harness(tmp_path, followers=(follower,))
        hosted = harness.hosted[0]
        for _ in range(2):
            hosted.append(produced(), NOW_MS)
        session = begun(harness, ask(0, 2), replica=follower)
        harness.fetch(ask(0, 2), session=(session, 1), replica=follower, max_wait_ms=0)
        responses = len(harness.responses)
        hosted.advance_log_start_offset(1)
        harness.fetch(ask(0, 2), session=(session, 2), replica=follower)
        await turns()
        assert len(harness.responses) == responses + 1
        assert [one.log_start_offset for one in harness.data()] == [1]

    simulated(story)


def test_offset_of_a_follower_is_noted_once_while_its_fetch_waits(tmp_path: Path) -> None:
    """A follower has caught up at the time of its request, and not of each record that wakes it."""

    async def story() -> None:
        harness = Harness(tmp_path, followers=(FOLLOWER,))
        hosted = harness.hosted[0]
        hosted.fetches = []
        harness.fetch(ask(), replica=FOLLOWER, min_bytes=10 * ONE)
        for _ in range(3):
            hosted.append(produced(), NOW_MS)
            hosted.wake_readers()
            await turns()
        await after_ms(600)
        assert harness.sizes() == {0: 3 * ONE}
        assert hosted.fetches == [(FOLLOWER, 0)]

    simulated(story)


def test_each_request_of_a_session_counts_for_its_idle_partitions(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, followers=(FOLLOWER,))
        hosted = harness.hosted[0]
        session_id = begun(harness, ask(0), replica=FOLLOWER)
        for epoch in range(1, 50):
            harness.fetch(session=(session_id, epoch), replica=FOLLOWER, max_wait_ms=0)
            await after_ms(1000)
        hosted.append(produced(), NOW_MS)
        hosted.shrink_isr(harness.clock.now_ms())
        assert hosted.proposals == []
        await after_ms(LAG_MS - 3000)
        hosted.shrink_isr(harness.clock.now_ms())
        assert hosted.proposals == []
        await after_ms(3000)
        hosted.shrink_isr(harness.clock.now_ms())
        assert len(hosted.proposals) == 1

    simulated(story)


def test_follower_outside_of_the_isr_is_not_idle(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, followers=(FOLLOWER,))
        hosted = harness.hosted[0]
        hosted.lead(FOLLOWER, isr=(OWN,), partition_epoch=1)
        hosted.role.may_join = lambda replica, epoch: False
        session_id = begun(harness, ask(0), replica=FOLLOWER)
        harness.fetch(session=(session_id, 1), replica=FOLLOWER)
        session = harness.sessions.get(session_id)
        assert session is not None and len(session.active_partitions) == 1
        assert [type(one) for one in hosted.end_watchers] == [FollowerFetch]

    simulated(story)


def test_idle_partition_wakes_in_another_session_of_the_same_broker(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, followers=(FOLLOWER,))
        first, second = (begun(harness, ask(0), replica=FOLLOWER) for _ in range(2))
        for session_id in (first, second):
            harness.fetch(session=(session_id, 1), replica=FOLLOWER, max_wait_ms=0)
        sessions = [harness.sessions.get(one) for one in (first, second)]
        assert [len(one.active_partitions) for one in sessions if one is not None] == [1, 0]
        assert len(harness.hosted[0].end_watchers) == 1

    simulated(story)


def test_new_process_of_a_follower_has_all_partitions_looked_at(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2, followers=(FOLLOWER,))
        session_id = begun(harness, ask(0), ask(1), replica=FOLLOWER)
        session = harness.sessions.get(session_id)
        assert session is not None
        harness.fetch(session=(session_id, 1), replica=FOLLOWER, max_wait_ms=0)
        assert session.active_partitions == {} and session.replica_epoch == 5
        session.replica_epoch = 4
        harness.fetch(session=(session_id, 2), replica=FOLLOWER, max_wait_ms=0)
        assert session.replica_epoch == 5

    simulated(story)


# ---- the number of sessions


def context_of(sessions: FetchSessions, count: int, version: int = 12) -> FetchContext:
    topics = [FetchTopic("t", partitions=[ask(index) for index in range(count)])]
    found = run_to_completion(sessions.open(FetchRequest(session_id=0, session_epoch=0, topics=topics), version, 0))
    assert isinstance(found, FetchContext)
    return found


@pytest.mark.parametrize(
    ("is_follower", "size", "idle_ms", "age_ms", "fits"),
    [
        (False, 1, EVICTION_MS, EVICTION_MS, False),
        (False, 1, EVICTION_MS + 1, EVICTION_MS + 1, True),
        (False, 1, 0, EVICTION_MS + 1, False),
        (False, 2, 0, EVICTION_MS + 1, False),
        (False, 3, 0, EVICTION_MS + 1, True),
        (False, 3, 0, EVICTION_MS, False),
        (True, 1, 0, 0, True),
    ],
)
def test_full_cache_makes_room_by_age_use_size_and_kind(
    is_follower: bool, size: int, idle_ms: int, age_ms: int, fits: bool
) -> None:
    sessions = FetchSessions(1)
    first = sessions.begin(context_of(sessions, 2), 0, is_follower=False)
    (session,) = sessions
    session.last_used_ms = age_ms - idle_ms
    second = sessions.begin(context_of(sessions, size), age_ms, is_follower=is_follower)
    assert (second != 0) == fits and (sessions.get(first) is None) == fits
    assert (len(sessions), sessions.evictions) == (1, int(fits))
    assert sessions.partition_count == (size if fits else 2)


def test_follower_pushes_out_no_other_follower_that_is_new() -> None:
    sessions = FetchSessions(1)
    sessions.begin(context_of(sessions, 1), 0, is_follower=True)
    assert sessions.begin(context_of(sessions, 5), 10, is_follower=True) == 0
    assert sessions.begin(context_of(sessions, 5), 10, is_follower=False) == 0


@pytest.mark.parametrize(("count", "fits"), [(5, True), (6, False)])
def test_partitions_of_all_sessions_have_a_limit(count: int, fits: bool) -> None:
    sessions = FetchSessions(10, 8)
    sessions.begin(context_of(sessions, 3), 0, is_follower=False)
    assert (sessions.begin(context_of(sessions, count), 10, is_follower=False) != 0) == fits
    assert (sessions.begin(context_of(sessions, 6), EVICTION_MS + 1, is_follower=False) != 0) == (not fits)


@pytest.mark.parametrize(
    ("absent", "hosted", "begins"), [(10, 0, True), (11, 0, False), (11, 11, True), (12, 11, False)]
)
def test_session_may_name_as_many_absent_partitions_as_hosted_ones(absent: int, hosted: int, begins: bool) -> None:
    assert ABSENT_PARTITIONS == 10
    for version in (12, 17):
        sessions = FetchSessions(10, is_hosted=lambda key, by_id: key[1] >= absent)
        context = context_of(sessions, absent + hosted, version)
        assert context.absent == absent
        assert (sessions.begin(context, 0, is_follower=False) != 0) == begins


@pytest.mark.parametrize(
    ("topics", "partitions", "is_large"),
    [(1, LARGE_FETCH - 1, False), (1, LARGE_FETCH, True), (LARGE_FETCH, 0, False), (LARGE_FETCH + 1, 0, True)],
)
def test_large_fetch_is_one_that_names_many(topics: int, partitions: int, is_large: bool) -> None:
    asked = [FetchTopic("t", partitions=[ask(index) for index in range(partitions)]) for _ in range(topics)]
    assert is_large_fetch(FetchRequest(topics=asked)) == is_large


def test_session_names_topics_as_its_first_request(tmp_path: Path) -> None:
    sessions = FetchSessions(10)
    session_id = sessions.begin(context_of(sessions, 1, 12), 0, is_follower=False)
    request = FetchRequest(session_id=session_id, session_epoch=1)
    for version, expected in ((13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR), (12, None)):
        found = run_to_completion(sessions.open(request, version, 0))
        assert found is expected or isinstance(found, FetchContext)
        assert isinstance(found, FetchContext) == (expected is None)
    unknown = FetchRequest(session_id=session_id + 1, session_epoch=1)
    assert run_to_completion(sessions.open(unknown, 12, 0)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
