"""A replica fetcher in simulated time, with the test as its leader: each request, and what a response does to the log."""

from __future__ import annotations

import asyncio
import logging
import struct
from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ReplicaState,
)
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.server.replicas.fetcher import _LAST_SESSION_EPOCH, THROTTLED_MS
from odradek.server.replicas.followed_partition import FIRST_BACKOFF_MS, FollowedPartition
from odradek.server.runtime.turn_budget import SLICE_S
from odradek.storage.files.failures import LogDirectoryFailure

from tests.server.harness.fetcher import FOLLOWER, LEADER, LEADERS_ENDPOINT, NO_EPOCH, Harness, Pauses, data, diverges
from tests.server.harness.hosted import TOPIC, TOPIC_ID, Hosted, Watching, batch, joined, truncations
from tests.server.harness.scripted_log import ScriptedLog
from tests.server.harness.virtual_time import after_ms, simulated, turns

# ---- requests


def test_first_request_has_all_partitions_and_begins_a_session(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(
            tmp_path,
            2,
            replica_fetch_max_bytes="1000",
            replica_fetch_min_bytes="7",
            replica_fetch_response_max_bytes="5000",
            replica_fetch_wait_max_ms="400",
        )
        harness.hosted[1].log.append(batch(3, epoch=4), None, 0)
        assert harness.sent == []
        await turns()
        (one,) = harness.sent
        assert (one.endpoint, one.purpose) == (LEADERS_ENDPOINT, "fetcher-0")
        request = harness.last
        assert request.replica_state == ReplicaState(FOLLOWER, 77)
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (400, 7, 5000)
        assert (request.session_id, request.session_epoch) == (0, 0)
        (topic,) = request.topics
        assert topic.topic_id == TOPIC_ID
        assert [
            (one.partition, one.current_leader_epoch, one.fetch_offset, one.last_fetched_epoch, one.log_start_offset)
            for one in topic.partitions
        ] == [(0, 1, 0, NO_EPOCH, 0), (1, 1, 3, 4, 0)]
        assert {one.partition_max_bytes for one in topic.partitions} == {1000}
        assert len(harness.fetcher) == 2

    simulated(story)


def test_session_has_what_changed_and_its_epochs_count(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 3)
        await turns()
        for count in range(1, 4):
            await harness.respond(data(1, joined(batch(offset=count - 1)), end=count))
            assert harness.asked() == {1: count}
            assert (harness.last.session_id, harness.last.session_epoch) == (9, count)
        await harness.respond()
        assert (harness.asked(), harness.last.session_epoch) == ({}, 4)
        harness.fetcher._session_epoch = _LAST_SESSION_EPOCH
        await harness.respond()
        assert (harness.last.session_id, harness.last.session_epoch) == (9, 1)
        await harness.respond(session_id=10)
        assert (harness.asked(), harness.last.session_id, harness.last.session_epoch) == ({}, 10, 1)
        await harness.respond(session_id=0)
        assert (harness.asked(), harness.last.session_id, harness.last.session_epoch) == ({0: 0, 1: 3, 2: 0}, 0, 0)

    simulated(story)


def test_lost_session_begins_again_at_once_and_then_after_growing_pauses(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 1, replica_fetch_backoff_ms="120")
        await turns()
        await harness.respond()
        pauses = []
        for _ in range(5):
            failed_at = harness.clock.now_ms()
            count = len(harness.sent)
            await harness.respond(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            while len(harness.sent) == count:
                await after_ms(1)
            assert (harness.asked(), harness.last.session_id, harness.last.session_epoch) == ({0: 0}, 0, 0)
            pauses.append(harness.sent[-1].at_ms - failed_at)
        assert [pause // 10 for pause in pauses] == [0, 10, 12, 12, 12]
        await harness.respond()
        await harness.respond(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        assert harness.last.session_id == 0, "after a success it is the first failure again"

    simulated(story)


def test_leader_without_a_response_is_asked_again_after_a_pause(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        await turns()
        for pause_ms in (50, 100, 150):
            count = len(harness.sent)
            harness.sent[-1].reply(None)
            await after_ms(pause_ms - 2)
            assert len(harness.sent) == count
            await after_ms(4)
            assert len(harness.sent) == count + 1

    simulated(story)


def test_leader_that_the_metadata_does_not_know_is_looked_for_again(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, replica_fetch_backoff_ms="300")
        harness.leaders_endpoint = None
        await after_ms(700)
        assert harness.sent == []
        harness.leaders_endpoint = LEADERS_ENDPOINT
        await after_ms(300)
        assert len(harness.sent) == 1

    simulated(story)


def test_next_fetch_waits_for_its_pause_and_a_change_does_not(tmp_path: Path) -> None:
    async def story() -> None:
        pauses = Pauses(30)
        harness = Harness(tmp_path, pauses=pauses)
        await turns()
        await harness.respond()
        await after_ms(28)
        assert len(harness.sent) == 1
        await after_ms(4)
        assert len(harness.sent) == 2 and len(pauses.sent_ms) == 2
        await harness.respond(data(0, joined(batch()), end=1))
        assert pauses.urgent == [False, True], "a follower's partition with records does not wait"
        late = Hosted(tmp_path, FOLLOWER, index=7)
        late.follow_leader(LEADER)
        harness.follow(late)
        await after_ms(1)
        assert harness.asked() == {0: 1, 7: 0}, "a change is sent at once"
        await harness.respond()
        harness.fetcher.close()
        await after_ms(40)
        assert len(harness.sent) == 3

    simulated(story)


def test_one_request_is_in_flight_and_changes_meanwhile_are_in_the_next(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2)
        await turns()
        late = Hosted(tmp_path, FOLLOWER, index=7)
        late.follow_leader(LEADER)
        harness.follow(late)
        harness.hosted[0].log_start_moved()
        await after_ms(50)
        assert len(harness.sent) == 1
        await harness.respond(data(1))
        assert harness.asked() == {7: 0}

    simulated(story)


def test_request_is_short_while_some_partitions_are_left_out(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2, replica_fetch_wait_max_ms="450")
        await turns()
        assert harness.last.max_wait_ms == 450
        await harness.respond(data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), data(1))
        assert (harness.last.max_wait_ms, harness.forgotten(), harness.asked()) == (100, [0], {})
        await after_ms(FIRST_BACKOFF_MS + 2)
        await harness.respond()
        assert (harness.last.max_wait_ms, harness.forgotten(), harness.asked()) == (450, [], {0: 0})

    simulated(story)


@pytest.mark.parametrize("other", ["removed", "offline", "leader", "new epoch"])
def test_partition_that_is_no_longer_followed_leaves_the_session(other: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2)
        await turns()
        hosted = harness.hosted[0]
        if other == "removed":
            hosted.is_removed = True
            hosted.wake_all()
        elif other == "offline":
            hosted.offline = True
            hosted.wake_all()
        elif other == "leader":
            hosted.lead(LEADER, epoch=2, partition_epoch=2)
        else:
            hosted.follow_leader(LEADER, epoch=2)
        assert hosted.end_watchers
        await harness.respond(data(0, joined(batch()), end=1), data(1, joined(batch()), end=1))
        assert (harness.asked(), harness.forgotten(), len(harness.fetcher)) == ({1: 1}, [0], 1)
        assert hosted.log_end_offset == 0 and not hosted.end_watchers
        harness.hosted[1].is_removed = True
        harness.hosted[1].wake_all()
        count = len(harness.sent)
        await harness.respond()
        await after_ms(5000)
        assert (len(harness.sent), len(harness.fetcher)) == (count, 0), "there is nothing left to fetch"

    simulated(story)


def test_newer_epoch_of_a_leader_takes_the_place_of_the_older(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        await turns()
        hosted = harness.hosted[0]
        hosted.follow_leader(LEADER, epoch=2)
        harness.follow(hosted)
        assert len(hosted.end_watchers) == 1, "the former one has left"
        await harness.respond(data(0, joined(batch()), end=1))
        assert hosted.log_end_offset == 0, "the response is of the former epoch"
        (asked,) = harness.last.topics[0].partitions
        assert asked.current_leader_epoch == 2
        await harness.respond(data(0, joined(batch(epoch=2)), end=1))
        assert hosted.log_end_offset == 1

    simulated(story)


def test_response_is_applied_in_slices_and_the_next_request_waits_for_all_of_it(tmp_path: Path) -> None:
    """A slow disk holds the loop for one append at a time."""

    async def story() -> None:
        harness, count = Harness(tmp_path, 4), 4
        await turns()
        loop, ends = asyncio.get_running_loop(), []
        for hosted in harness.hosted:
            hosted.log.before["append"] = lambda *_: loop.advance(2 * SLICE_S)  # type: ignore[attr-defined]
        harness.sent[-1].reply(
            FetchResponse(
                0, 0, 9, [FetchableTopicResponse("", TOPIC_ID, [data(i, joined(batch()), end=1) for i in range(count)])]
            )
        )
        for _ in range(count):
            ends.append([hosted.log_end_offset for hosted in harness.hosted])
            assert len(harness.sent) == 1
            await asyncio.sleep(0)
        await turns()
        assert ends == [[1] * done + [0] * (count - done) for done in range(1, count + 1)]
        assert harness.asked() == dict.fromkeys(range(count), 1)
        harness.sent[-1].reply(
            FetchResponse(
                0,
                0,
                9,
                [FetchableTopicResponse("", TOPIC_ID, [data(i, joined(batch(offset=1)), end=2) for i in range(count)])],
            )
        )
        harness.fetcher.close()
        await turns()
        assert [hosted.log_end_offset for hosted in harness.hosted] == [2, 1, 1, 1], "closed after the first slice"

    simulated(story)


def test_closed_fetcher_sends_and_writes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        await turns()
        harness.fetcher.close()
        await harness.respond(data(0, joined(batch()), end=1))
        await after_ms(1000)
        assert len(harness.sent) == 1 and harness.hosted[0].log_end_offset == 0
        assert not harness.hosted[0].end_watchers
        planned = Harness(tmp_path / "b")
        planned.fetcher.close()
        await after_ms(1000)
        assert planned.sent == []

    simulated(story)


def test_changed_limit_of_bytes_is_sent_for_all_partitions(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2, replica_fetch_max_bytes="1000")
        await turns()
        await harness.respond()
        assert harness.asked() == {}
        harness.config.get = lambda key: 2000 if key == "replica.fetch.max.bytes" else 5  # type: ignore[method-assign]
        await harness.respond()
        assert {one.partition_max_bytes for one in harness.last.topics[0].partitions} == {2000}
        assert harness.asked() == {0: 0, 1: 0}
        await harness.respond()
        assert harness.asked() == {}

    simulated(story)


# ---- the throttle


def test_throttled_replica_is_left_out_until_the_quota_has_room(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2)
        harness.quota.is_on, harness.quota.throttled = True, {0}
        await turns()
        assert (harness.asked(), harness.last.max_wait_ms) == ({1: 0}, 100)
        harness.quota.throttled = set()
        await harness.respond(data(1, joined(batch()), end=1))
        assert harness.asked() == {0: 0, 1: 1}
        assert harness.quota.recorded == [(1, len(batch()))]
        harness.quota.throttled = {1}
        await harness.respond(data(0))
        assert (harness.asked(), harness.forgotten()) == ({}, [1])
        harness.quota.is_on = False
        await harness.respond()
        assert harness.asked() == {1: 1}, "a quota that goes frees what it left out"

    simulated(story)


def test_fetcher_of_throttled_replicas_only_looks_again_after_a_while(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        harness.quota.is_on, harness.quota.throttled = True, {0}
        await after_ms(3 * THROTTLED_MS + 50)
        assert harness.sent == []
        harness.quota.throttled = set()
        await after_ms(THROTTLED_MS)
        assert harness.asked() == {0: 0}

    simulated(story)


@pytest.mark.parametrize(("left_ms", "pause_ms"), [(5, 5), (1, 1), (0, THROTTLED_MS), (-4, THROTTLED_MS)])
def test_fetcher_of_delayed_replicas_looks_again_when_the_first_one_is_due(
    left_ms: int, pause_ms: int, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2)
        await turns()
        now_ms = harness.fetcher._steady_ms()
        for index, more_ms in ((0, 40), (1, 0)):
            followed = FollowedPartition(harness.hosted[index], 0, harness.truncations)
            followed.not_before_ms = now_ms + left_ms + more_ms
            harness.fetcher._delayed[TOPIC_ID, index] = followed
        assert harness.fetcher._soonest_ms() == pause_ms
        harness.fetcher._delayed.clear()
        assert harness.fetcher._soonest_ms() == THROTTLED_MS

    simulated(story)


# ---- errors of one partition


def test_failing_partition_is_left_out_for_a_pause_that_doubles(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, replica_fetch_backoff_ms="100")
        await turns()
        for pause_ms in (20, 40, 80, 100, 100):
            count = len(harness.sent)
            await harness.respond(data(0, error=ErrorCode.UNKNOWN_LEADER_EPOCH))
            await after_ms(pause_ms - 3)
            assert len(harness.sent) == count
            await after_ms(5)
            assert len(harness.sent) == count + 1
            assert harness.asked() == {}, "the session still has it"
        await harness.respond(data(0, joined(batch()), end=1))
        count = len(harness.sent)
        await harness.respond(data(0, error=ErrorCode.UNKNOWN_LEADER_EPOCH))
        await after_ms(FIRST_BACKOFF_MS + 2)
        assert len(harness.sent) == count + 1, "a success ends the growth"

    simulated(story)


def test_start_of_the_leaders_log_is_known_from_its_error(tmp_path: Path) -> None:
    """A follower of a log whose first part is in a remote store begins there."""

    async def story() -> None:
        harness = Harness(tmp_path)
        followed = FollowedPartition(harness.hosted[0], 0, harness.truncations)
        assert followed.leader_start == -1
        assert followed.take(data(0, error=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, start=7), 0) == 109
        assert followed.leader_start == 7

    simulated(story)


def test_failing_partition_does_not_delay_the_others(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2)
        await turns()
        bad = bytearray(joined(batch()))
        bad[-1] ^= 1
        await harness.respond(data(0, bytes(bad), end=1), data(1, joined(batch()), end=1))
        assert [hosted.log_end_offset for hosted in harness.hosted] == [0, 1]
        assert (harness.asked(), harness.forgotten()) == ({1: 1}, [0])
        assert harness.damage.bad_fetches == 1

    simulated(story)


def test_bug_in_one_partition_does_not_stop_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2)
        await turns()

        def follow(high_watermark: int, log_start_offset: int) -> None:
            raise RuntimeError("a bug")

        harness.hosted[0].__class__ = type("Failing", (Hosted,), {"follow": lambda self, *_: follow(*_)})
        await harness.respond(data(0, joined(batch()), end=1), data(1, joined(batch()), end=1))
        assert harness.hosted[1].high_watermark == 1
        assert (harness.asked(), harness.forgotten()) == ({1: 1}, [0])

    simulated(story)
    assert "a bug" in caplog.text


@pytest.mark.parametrize(
    ("error", "failures", "is_logged"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 6, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 7, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, 6, False),
        (ErrorCode.KAFKA_STORAGE_ERROR, 1, True),
    ],
)
def test_error_of_old_metadata_is_logged_when_it_lasts(
    error: ErrorCode, failures: int, is_logged: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def story() -> None:
        harness = Harness(tmp_path, replica_fetch_backoff_ms="20")
        await turns()
        for _ in range(failures):
            await harness.respond(data(0, error=error))
            await after_ms(FIRST_BACKOFF_MS + 2)

    simulated(story)
    assert (f"{TOPIC}-0: broker {LEADER} returned {error.name}" in caplog.text) == is_logged


@pytest.mark.parametrize("is_tiered", [True, False])
@pytest.mark.parametrize(
    ("error", "begins_behind"),
    [
        (ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
    ],
)
def test_log_begins_behind_the_remote_part_only_where_the_leader_says_so_and_the_broker_is_tiered(
    is_tiered: bool, error: ErrorCode, begins_behind: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def story() -> None:
        started: list[FollowedPartition] = []
        harness = Harness(tmp_path, start_behind_remote=started.append if is_tiered else None)
        await turns()
        await harness.respond(data(0, error=error))
        assert [one.hosted for one in started] == harness.hosted * (is_tiered and begins_behind)

    simulated(story)
    is_quiet = error == ErrorCode.NOT_LEADER_OR_FOLLOWER or (is_tiered and begins_behind)
    assert (error.name in caplog.text) == (not is_quiet)


def test_damage_of_the_leader_is_logged_with_its_offset(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        await turns()
        await harness.respond(data(0, joined(batch(2)), end=2))
        await harness.respond(data(0, error=ErrorCode.CORRUPT_MESSAGE))
        assert harness.damage.bad_fetches == 0

    simulated(story)
    assert f"{TOPIC}-0: broker {LEADER} reports that its records from offset 2 on are damaged" in caplog.text


# ---- records


def test_disk_that_fails_under_fetched_records_takes_the_directory_offline(tmp_path: Path) -> None:
    failure = LogDirectoryFailure("/d", "writing", OSError(5, "broken"))

    async def story() -> None:
        harness = Harness(tmp_path)
        await turns()
        [hosted] = harness.hosted
        assert isinstance(hosted.log, ScriptedLog)
        hosted.log.fail("append", failure)
        await harness.respond(data(0, bytes(batch(2)), end=2, start=0))
        assert hosted.failures == [failure]
        assert hosted.offsets() == (0, 0, 0)
        assert len(harness.sent) == 1, "it is left out for a while, as after each error"
        await after_ms(FIRST_BACKOFF_MS + 2)
        assert len(harness.sent) == 2

    simulated(story)


def test_records_are_written_as_they_are_and_committed_as_the_leader_says(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        await turns()
        hosted = harness.hosted[0]
        sent = joined(batch(2), batch(3, offset=2), batch(1, offset=9))
        await harness.respond(data(0, sent + b"\0" * 5, end=5))
        assert hosted.log.read(0, 1 << 20).bytes() == sent
        assert hosted.offsets() == (0, 5, 10), "compaction leaves gaps"
        await harness.respond(data(0, end=99, start=4))
        assert hosted.offsets() == (4, 10, 10)
        await harness.respond(data(0, end=10, start=50))
        assert hosted.log.log_start_offset == 10, "not above what is committed"
        await harness.respond(data(0, end=7))
        assert hosted.high_watermark == 10

    simulated(story)


@pytest.mark.parametrize("broken", ["crc", "earlier offset", "later epoch", "cut"])
def test_batches_before_a_bad_one_are_written(broken: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        await turns()
        good, second = joined(batch(2)), bytearray(batch(1, offset=2))
        if broken == "crc":
            second[-1] ^= 1
        elif broken == "earlier offset":
            second = batch(1, offset=1)
        elif broken == "later epoch":
            struct.pack_into(">i", second, 12, harness.hosted[0].role.leader_epoch + 1)  # no CRC covers it
        else:
            second = second[:-1]
        await harness.respond(data(0, good + bytes(second), end=3))
        hosted = harness.hosted[0]
        assert hosted.log.read(0, 1 << 20).bytes() == good
        assert harness.damage.bad_fetches == (0 if broken == "cut" else 1)
        assert hosted.high_watermark == (2 if broken == "cut" else 0)
        await after_ms(FIRST_BACKOFF_MS + 2)
        assert harness.asked() == {0: 2}

    simulated(story)


def test_batches_that_no_segment_holds_together_are_written_one_by_one(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        hosted = harness.hosted[0]
        one = batch(1, value=b"x" * 200)
        hosted.rules = hosted.rules.__class__(
            None, None, False, 1 << 62, 1 << 62, False, 1, 1_048_588, 1 << 30, len(one) + 10
        )
        hosted.log.config = hosted.log.config.__class__(segment_bytes=len(one) + 10)
        await turns()
        sent = [batch(1, offset=number, value=b"x" * 200) for number in range(4)]
        await harness.respond(data(0, joined(*sent), end=4))
        assert hosted.offsets() == (0, 4, 4)
        assert [segment.size for segment in hosted.log.segments] == [len(one)] * 4

    simulated(story)


def test_records_of_an_unrequested_partition_are_ignored(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2)
        harness.quota.is_on, harness.quota.throttled = True, {1}
        await turns()
        await harness.respond(data(1, joined(batch()), end=1), data(5, joined(batch()), end=1))
        assert harness.hosted[1].log_end_offset == 0

    simulated(story)


# ---- logs that differ


@pytest.mark.parametrize(
    ("epoch", "end_offset", "end"),
    [
        (2, 4, 3),  # the leader's epoch 2 ends earlier, within a batch of the follower, which goes whole
        (2, 9, 6),  # it ends later: the rest is fetched
        (1, 3, 3),
        (0, 2, 0),  # the leader has none of these epochs
        (NO_EPOCH, 3, 3),
        (NO_EPOCH, 0, 0),
        (0, NO_EPOCH, 3),  # no such epoch: what is committed stays
    ],
)
def test_diverging_log_is_truncated(epoch: int, end_offset: int, end: int, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, epoch=3)
        await turns()
        hosted = harness.hosted[0]
        await harness.respond(
            data(0, joined(batch(3), batch(3, offset=3, epoch=2), batch(2, offset=6, epoch=3)), end=3)
        )
        assert hosted.offsets() == (0, 3, 8)
        watching = Watching()
        hosted.watchers[watching] = None
        await harness.respond(diverges(epoch, end_offset))
        assert hosted.log_end_offset == end
        assert hosted.high_watermark == min(3, end)
        assert watching.changes == 1
        assert harness.asked() == {0: end}

    simulated(story)


@pytest.mark.parametrize(("epoch", "end"), [(1, 5), (0, 5), (NO_EPOCH, 2)])
def test_log_without_epochs_begins_with_what_is_committed(epoch: int, end: int, tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, FOLLOWER)
    hosted.follow_leader(LEADER)
    hosted.log.append(batch(2, epoch=epoch), None, 0)
    hosted.log.append(batch(3, offset=2, epoch=epoch), None, 0)
    hosted.role.appended(5, 0)
    hosted.follow(2, 0)
    FollowedPartition(hosted, 0, truncations())
    assert hosted.offsets() == (0, 2, end)


def offsets(found: int, error: int = 0) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(TOPIC, [ListOffsetsPartitionResponse(0, error, offset=found)])]
    )


@pytest.mark.parametrize(
    ("latest", "earliest", "expected"),
    [
        (4, None, (0, 2, 4)),
        (5, None, (0, 2, 5)),
        (6, 2, (0, 2, 6)),
        (9, 6, (0, 2, 6)),
        (9, 7, (7, 7, 7)),
    ],
)
def test_log_outside_of_its_leaders_is_truncated_or_starts_over(
    latest: int, earliest: int | None, expected: tuple[int, int, int], tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        await turns()
        hosted = harness.hosted[0]
        await harness.respond(data(0, joined(*(batch(1, offset=number) for number in range(6))), end=2))
        count = len(harness.sent)
        await harness.respond(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
        first = harness.sent[count]
        assert isinstance(first.request, ListOffsetsRequest)
        assert (first.endpoint, first.purpose, first.request.replica_id) == (
            LEADERS_ENDPOINT,
            "replica-offsets",
            FOLLOWER,
        )
        (topic,) = first.request.topics
        (asked,) = topic.partitions
        assert (topic.name, asked.partition_index, asked.current_leader_epoch, asked.timestamp) == (TOPIC, 0, 1, -1)
        first.reply(offsets(latest))
        if earliest is not None:
            (again,) = [one for one in harness.sent[count + 1 :] if isinstance(one.request, ListOffsetsRequest)]
            assert again.request.topics[0].partitions[0].timestamp == -2
            again.reply(offsets(earliest))
        assert hosted.offsets() == expected
        await after_ms(FIRST_BACKOFF_MS + 2)
        assert isinstance(harness.last, FetchRequest)
        assert harness.asked() == ({0: expected[2]} if expected[2] != 6 else {}), "the session has the same offset"

    simulated(story)


@pytest.mark.parametrize("response", [None, "error", "new epoch"])
def test_log_stays_as_it_is_when_the_leaders_end_is_unknown(response: str | None, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path)
        await turns()
        hosted = harness.hosted[0]
        await harness.respond(data(0, joined(*(batch(1, offset=number) for number in range(6))), end=2))
        await harness.respond(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
        (ask,) = [one for one in harness.sent if isinstance(one.request, ListOffsetsRequest)]
        if response == "new epoch":
            hosted.follow_leader(LEADER, epoch=2)
        ask.reply(
            None if response is None else offsets(1, ErrorCode.UNKNOWN_LEADER_EPOCH if response == "error" else 0)
        )
        assert hosted.offsets() == (0, 2, 6)
        assert sum(isinstance(one.request, ListOffsetsRequest) for one in harness.sent) == 1

    simulated(story)
