"""The leadership of one partition: who is committed to what."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.replication.partition import Partition

ME, OTHER, THIRD = 1, 2, 3
NOW = 1_000_000
#: Beyond replica.lag.time.max.ms.
LATER = NOW + 60_000


class Registration(NamedTuple):
    replicas: tuple[int, ...] = (ME,)
    isr: tuple[int, ...] = (ME,)
    leader: int = ME
    leader_epoch: int = 0
    partition_epoch: int = 0


def leader_of(*isr: int, end: int = 10, high_watermark: int = 0) -> Partition:
    partition = Partition(ME, end, high_watermark)
    partition.apply(Registration(replicas=(ME, OTHER, THIRD), isr=isr), NOW)
    return partition


def test_a_leader_alone_commits_what_it_has() -> None:
    partition = leader_of(ME)
    assert (partition.is_leader, partition.high_watermark) == (True, 10)
    assert partition.appended(15, NOW)
    assert partition.high_watermark == 15


def test_a_leader_with_followers_commits_what_all_in_sync_have() -> None:
    partition = leader_of(ME, OTHER, THIRD)
    assert partition.high_watermark == 0, "a follower that has not fetched yet holds it"
    assert not partition.follower_fetched(OTHER, 10, NOW)
    assert partition.follower_fetched(THIRD, 7, NOW)
    assert partition.high_watermark == 7
    assert not partition.appended(20, NOW)
    assert not partition.follower_fetched(OTHER, 20, NOW)
    assert partition.follower_fetched(THIRD, 20, NOW)
    assert partition.high_watermark == 20


def test_a_replica_that_left_the_isr_is_not_waited_for() -> None:
    partition = leader_of(ME, OTHER)
    assert partition.high_watermark == 0
    assert not partition.apply(Registration((ME, OTHER), isr=(ME,), partition_epoch=1), LATER), "the same leader"
    assert partition.high_watermark == 10


def test_the_high_watermark_never_goes_back() -> None:
    partition = leader_of(ME, OTHER)
    assert partition.follower_fetched(OTHER, 8, NOW)
    assert not partition.follower_fetched(OTHER, 3, NOW)
    assert partition.high_watermark == 8


def test_a_clock_that_is_set_back_keeps_nobody_in_sync_who_falls_behind() -> None:
    partition = leader_of(ME, OTHER)
    partition.lag_time_max_ms = 30_000
    partition.follower_fetched(OTHER, 10, NOW)
    partition.appended(11, NOW)
    hour_ms = 3_600_000
    assert partition.propose_shrinking(NOW - hour_ms) is None, "how long it has been behind is not known yet"
    assert partition.propose_shrinking(NOW - hour_ms + 30_001) is not None


def test_who_is_no_replica_changes_nothing() -> None:
    partition = leader_of(ME)
    assert not partition.follower_fetched(99, 100, NOW)
    assert not partition.follower_fetched(ME, 100, NOW)


def test_a_new_epoch_forgets_what_followers_had_and_notes_where_it_began() -> None:
    partition = leader_of(ME, OTHER)
    partition.follower_fetched(OTHER, 10, NOW)
    partition.appended(12, NOW)
    assert partition.apply(Registration((ME, OTHER), (ME, OTHER), leader_epoch=1, partition_epoch=1), NOW)
    assert partition.leader_epoch_start_offset == 12
    assert partition.high_watermark == 10
    assert not partition.follower_fetched(OTHER, 10, NOW)


def test_a_follower_follows_as_far_as_its_log_reaches() -> None:
    partition = Partition(ME, 10, 5)
    partition.apply(Registration((OTHER, ME), (OTHER, ME), leader=OTHER), NOW)
    assert not partition.is_leader
    assert partition.follow(8)
    assert partition.high_watermark == 8
    assert partition.follow(100)
    assert partition.high_watermark == 10
    assert not partition.follow(9), "older news"
    assert not partition.appended(30, NOW), "only the leader commits"
    partition.truncated(6)
    assert (partition.log_end_offset, partition.high_watermark) == (6, 6)


def test_older_news_of_the_metadata_is_ignored() -> None:
    partition = Partition(ME, 0, 0)
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
def test_the_epoch_that_a_client_believes_in_is_held_against_ours(believed: int, error: ErrorCode) -> None:
    partition = Partition(ME, 0, 0)
    partition.apply(Registration(leader_epoch=4), NOW)
    assert partition.error_for_epoch(believed) == error


def test_a_follower_answers_only_who_may_ask_followers() -> None:
    partition = Partition(ME, 0, 0)
    partition.apply(Registration((OTHER, ME), leader=OTHER, leader_epoch=4), NOW)
    assert partition.error_for_epoch(4) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.error_for_epoch(4, leader_only=False) == ErrorCode.NONE
    assert partition.error_for_epoch(3, leader_only=False) == ErrorCode.FENCED_LEADER_EPOCH


def test_a_high_watermark_above_the_log_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Partition(ME, 5, 6)
