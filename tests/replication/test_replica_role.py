"""The leadership of one partition: the high watermark, the ISR and epochs."""

from __future__ import annotations

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.replication.divergence import UNDEFINED, truncation_offset
from odradek.replication.replica_role import ReplicaRole

from tests.replication.harness.partition import ME, NOW, OTHER, THIRD, Registration, leader_of

#: More than replica.lag.time.max.ms.
LATER = NOW + 60_000


def test_single_replica_commits_its_log_end() -> None:
    partition = leader_of(ME)
    assert (partition.is_leader, partition.high_watermark) == (True, 10)
    assert partition.appended(15, NOW)
    assert partition.high_watermark == 15


def test_leader_commits_what_all_in_sync_replicas_have() -> None:
    partition = leader_of(ME, OTHER, THIRD)
    assert partition.high_watermark == 0, "a follower that has not fetched yet holds it back"
    assert not partition.follower_fetched(OTHER, 10, NOW)
    assert partition.follower_fetched(THIRD, 7, NOW)
    assert partition.high_watermark == 7
    assert not partition.appended(20, NOW)
    assert not partition.follower_fetched(OTHER, 20, NOW)
    assert partition.follower_fetched(THIRD, 20, NOW)
    assert partition.high_watermark == 20


def test_replica_outside_isr_does_not_hold_back_high_watermark() -> None:
    partition = leader_of(ME, OTHER)
    assert partition.high_watermark == 0
    assert not partition.apply(Registration((ME, OTHER), isr=(ME,), partition_epoch=1), LATER), "the same leader"
    assert partition.high_watermark == 10


def test_high_watermark_never_decreases() -> None:
    partition = leader_of(ME, OTHER)
    assert partition.follower_fetched(OTHER, 8, NOW)
    assert not partition.follower_fetched(OTHER, 3, NOW)
    assert partition.high_watermark == 8


def test_clock_set_back_does_not_keep_lagging_follower_in_sync() -> None:
    partition = leader_of(ME, OTHER)
    partition.lag_time_max_ms = 30_000
    partition.follower_fetched(OTHER, 10, NOW)
    partition.appended(11, NOW)
    hour_ms = 3_600_000
    assert partition.propose_shrinking(NOW - hour_ms) is None, "its lag time is not known yet"
    assert partition.propose_shrinking(NOW - hour_ms + 30_001) is not None


def test_fetch_by_non_replica_changes_nothing() -> None:
    partition = leader_of(ME)
    assert not partition.follower_fetched(99, 100, NOW)
    assert not partition.follower_fetched(ME, 100, NOW)


def test_new_epoch_resets_followers_and_records_its_start_offset() -> None:
    partition = leader_of(ME, OTHER)
    partition.follower_fetched(OTHER, 10, NOW)
    partition.appended(12, NOW)
    assert partition.apply(Registration((ME, OTHER), (ME, OTHER), leader_epoch=1, partition_epoch=1), NOW)
    assert partition.leader_epoch_start_offset == 12
    assert partition.high_watermark == 10
    assert not partition.follower_fetched(OTHER, 10, NOW)


def test_follower_high_watermark_is_limited_by_its_log_end() -> None:
    partition = ReplicaRole(ME, 10, 5)
    partition.apply(Registration((OTHER, ME), (OTHER, ME), leader=OTHER), NOW)
    assert not partition.is_leader
    assert partition.follow(8)
    assert partition.high_watermark == 8
    assert partition.follow(100)
    assert partition.high_watermark == 10
    assert not partition.follow(9), "an older high watermark"
    assert not partition.appended(30, NOW), "only the leader commits"
    partition.truncated(6)
    assert (partition.log_end_offset, partition.high_watermark) == (6, 6)


def test_older_metadata_is_ignored() -> None:
    partition = ReplicaRole(ME, 0, 0)
    partition.apply(Registration(leader_epoch=3, partition_epoch=9), NOW)
    assert not partition.apply(Registration(leader=OTHER, leader_epoch=2, partition_epoch=8), NOW)
    assert (partition.leader, partition.leader_epoch) == (ME, 3)


@pytest.mark.parametrize(
    ("believed", "error"),
    [
        (-1, ErrorCode.NONE),
        (4, ErrorCode.NONE),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_request_epoch_is_compared_with_leader_epoch(believed: int, error: ErrorCode) -> None:
    partition = ReplicaRole(ME, 0, 0)
    partition.apply(Registration(leader_epoch=4), NOW)
    assert partition.error_for_epoch(believed) == error


def test_follower_accepts_only_requests_allowed_for_followers() -> None:
    partition = ReplicaRole(ME, 0, 0)
    partition.apply(Registration((OTHER, ME), leader=OTHER, leader_epoch=4), NOW)
    assert partition.error_for_epoch(4) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.error_for_epoch(4, leader_only=False) == ErrorCode.NONE
    assert partition.error_for_epoch(3, leader_only=False) == ErrorCode.FENCED_LEADER_EPOCH


def test_high_watermark_above_log_end_raises() -> None:
    with pytest.raises(AssertionError):
        ReplicaRole(ME, 5, 6)


@pytest.mark.parametrize(("fetches_behind", "stays"), [(1, True), (2, False)])
def test_follower_one_fetch_behind_stays_in_isr_under_steady_load(fetches_behind: int, stays: bool) -> None:
    """Records come faster than fetches: the follower never fetches from the leader's log end of that time."""
    partition = leader_of(ME, OTHER)
    ends = [10] * fetches_behind
    for second in range(100):
        now = NOW + 1_000 * second
        partition.follower_fetched(OTHER, ends[-fetches_behind], now)
        ends.append(partition.log_end_offset)
        partition.appended(partition.log_end_offset + 5, now + 1)
    assert (partition.propose_shrinking(NOW + 100_000) is None) == stays


@pytest.mark.parametrize(
    ("leaders", "own", "expected"),
    [
        # The leader has no such epoch: the follower keeps what is committed.
        ((3, UNDEFINED), (3, 20), 12),
        # The leader has only offsets: an old leader.
        ((UNDEFINED, 15), (3, 20), 15),
        # The follower has no epoch up to that one.
        ((3, 15), (UNDEFINED, UNDEFINED), 15),
        # The follower has an older epoch only: what comes after that cannot be in the leader's log.
        ((3, 15), (2, 13), 13),
        # Both have the epoch: the shorter one counts.
        ((3, 15), (3, 17), 15),
        ((3, 15), (3, 14), 14),
        # Never more than the log.
        ((3, 30), (UNDEFINED, UNDEFINED), 20),
        ((3, 30), (2, 25), 20),
        ((UNDEFINED, 30), (3, 20), 20),
    ],
)
def test_follower_truncates_to_where_the_logs_may_differ(
    leaders: tuple[int, int], own: tuple[int, int], expected: int
) -> None:
    epoch, end_offset = leaders
    found = truncation_offset(
        epoch, end_offset, log_end_offset=20, high_watermark=12, end_offset_for={epoch: own}.__getitem__
    )
    assert found == expected
