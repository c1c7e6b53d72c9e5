"""The decisions of a leader about its followers: who is caught up, joins, leaves, and holds the high watermark back.

The leader is broker 0 and has the records below offset 10, in leader epoch 0.
"""

from __future__ import annotations

from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.replication.divergence import diverging
from odradek.replication.isr import (
    FollowerState,
    IsrProposal,
    lagging,
    maximal,
)
from odradek.replication.preferred_replica import CaughtUpFollower, candidates, nearest
from odradek.replication.replica_role import ReplicaRole

from tests.replication.harness.partition import NOW, Registration

LEADER, FOLLOWER, THIRD = 0, 1, 2
REPLICAS = (LEADER, FOLLOWER, THIRD)
LAG_MS = 30_000


def leader_of(*isr: int, end: int = 10, **fields: Any) -> ReplicaRole:
    partition = ReplicaRole(LEADER, end, 0)
    partition.apply(Registration(**{"replicas": REPLICAS, "isr": isr, "leader": LEADER} | fields), NOW)
    return partition


# ---- followers


@pytest.mark.parametrize(
    ("offset", "end_before", "caught_up_at"),
    [
        (10, 8, NOW + 5),
        (11, 8, NOW + 5),
        (9, 8, NOW + 2),
        (8, 8, NOW + 2),
        (7, 8, NOW),
        (0, 0, NOW + 2),
        (0, 1, NOW),
    ],
)
def test_follower_was_caught_up_when_it_had_what_the_leader_had_then(
    offset: int, end_before: int, caught_up_at: int
) -> None:
    """The follower fetched when the leader's log ended at `end_before`, at NOW + 2, and at 10, at NOW + 5."""
    follower = FollowerState(NOW)
    follower.fetched(-1, 0, 0, end_before, NOW + 2)
    assert follower.last_caught_up_ms == NOW
    follower.fetched(offset, 3, 4, 10, NOW + 5)
    assert follower.last_caught_up_ms == caught_up_at
    assert (follower.end_offset, follower.log_start_offset, follower.broker_epoch) == (offset, 3, 4)


def test_first_fetch_behind_the_end_does_not_count_as_caught_up() -> None:
    follower = FollowerState(0)
    follower.fetched(9, 0, 0, 10, NOW)
    assert follower.last_caught_up_ms == 0
    assert follower.is_caught_up(10, LAG_MS, LAG_MS) and not follower.is_caught_up(10, LAG_MS + 1, LAG_MS)


@pytest.mark.parametrize(
    ("end", "after_ms", "is_caught_up"),
    [(10, LAG_MS * 9, True), (9, LAG_MS, True), (9, LAG_MS + 1, False), (11, LAG_MS + 1, False), (-1, 0, True)],
)
def test_follower_is_caught_up_at_the_end_or_within_its_lag_time(end: int, after_ms: int, is_caught_up: bool) -> None:
    follower = FollowerState(NOW)
    follower.end_offset = end
    assert follower.is_caught_up(10, NOW + after_ms, LAG_MS) == is_caught_up


def test_follower_that_keeps_up_is_caught_up_without_a_fetch_that_is_recorded() -> None:
    partition = leader_of(*REPLICAS)
    partition.follower_fetched(FOLLOWER, 10, NOW)
    partition.follower_kept_up(FOLLOWER, NOW + 50)
    partition.follower_kept_up(FOLLOWER, NOW + 40)
    partition.follower_kept_up(99, NOW + 40)
    follower = partition.followers[FOLLOWER]
    assert (follower.last_caught_up_ms, follower.last_fetch_ms) == (NOW + 50, NOW + 50)
    partition.appended(11, NOW + 60)
    partition.follower_fetched(FOLLOWER, 10, NOW + 70)
    assert follower.last_caught_up_ms == NOW + 50, "what it fetched at NOW + 50 was the end"


def test_lagging_members_are_followers_of_the_isr_that_are_not_caught_up() -> None:
    followers = {FOLLOWER: FollowerState(NOW), THIRD: FollowerState(NOW + 1)}
    later = NOW + LAG_MS + 1
    assert lagging(REPLICAS, followers, 10, later, LAG_MS) == [FOLLOWER]
    assert lagging((LEADER, THIRD), followers, 10, later, LAG_MS) == []
    assert lagging(REPLICAS, followers, 10, later + 1, LAG_MS) == [FOLLOWER, THIRD]


@pytest.mark.parametrize(
    ("fetched", "epoch", "known", "is_taken"),
    [(8, -1, -1, True), (8, 0, -1, True), (8, -1, 5, True), (8, 5, 5, True), (8, 4, 5, False), (8, 0, 1, False),
     (11, 6, 5, False), (10, 6, 5, True), (0, 0, 0, True)],
)  # fmt: skip
def test_fetch_of_a_former_incarnation_or_above_the_end_does_not_count(
    fetched: int, epoch: int, known: int, is_taken: bool
) -> None:
    partition = leader_of(LEADER, FOLLOWER)
    partition.follower_fetched(FOLLOWER, 0, NOW, broker_epoch=known)
    partition.follower_fetched(FOLLOWER, fetched, NOW, broker_epoch=epoch)
    assert partition.followers[FOLLOWER].end_offset == (fetched if is_taken else 0)
    assert partition.high_watermark == (fetched if is_taken else 0)


# ---- joining


@pytest.mark.parametrize(
    ("offset", "start", "may_join", "joins"),
    [(10, 10, True, True), (9, 10, True, False), (10, 10, False, False), (9, 10, False, False), (0, 0, True, True)],
)
def test_follower_joins_from_the_start_of_the_epoch_on_if_its_broker_may(
    offset: int, start: int, may_join: bool, joins: bool
) -> None:
    partition = leader_of(LEADER, end=start)
    asked: list[tuple[int, int]] = []
    partition.may_join = lambda replica, epoch: asked.append((replica, epoch)) is None and may_join
    partition.high_watermark = 0
    partition.follower_fetched(THIRD, offset, NOW, broker_epoch=0)
    asked.clear()
    proposal = partition.propose_joining(THIRD)
    assert proposal == (IsrProposal((LEADER, THIRD), 0, 0) if joins else None) and partition.proposal is proposal
    assert asked in ([], [(THIRD, 0)])


@pytest.mark.parametrize(("offset", "joins"), [(11, False), (12, True)])
def test_follower_joins_with_all_that_is_committed(offset: int, joins: bool) -> None:
    partition = leader_of(LEADER)
    partition.lag_time_max_ms = 0
    partition.appended(12, NOW + 1)
    assert partition.high_watermark == 12
    partition.follower_fetched(THIRD, offset, NOW + 2)
    assert (partition.propose_joining(THIRD) is not None) == joins


def test_members_and_brokers_without_a_replica_do_not_join() -> None:
    partition = leader_of(LEADER, FOLLOWER)
    for replica in (LEADER, FOLLOWER, 99):
        partition.follower_fetched(replica, 10, NOW)
        assert partition.propose_joining(replica) is None
    follower = ReplicaRole(LEADER, 10, 0)
    follower.apply(Registration(REPLICAS, (FOLLOWER,), FOLLOWER), NOW)
    assert follower.propose_joining(THIRD) is None and follower.propose_shrinking(NOW) is None


def test_one_proposal_is_in_flight_at_a_time() -> None:
    partition = leader_of(LEADER, FOLLOWER)
    partition.follower_fetched(THIRD, 10, NOW)
    first = partition.propose_joining(THIRD)
    assert first is not None and partition.propose_joining(THIRD) is None
    late = NOW + LAG_MS + 1
    assert partition.propose_shrinking(late) is None
    partition.withdraw(IsrProposal(*first))
    assert partition.proposal is first, "another proposal of the same ISR is not this one"
    partition.withdraw(first)
    assert partition.proposal is None
    assert partition.propose_shrinking(late) == IsrProposal((LEADER,), 0, 0)
    assert leader_of(LEADER, FOLLOWER).propose_shrinking(NOW) is None


# ---- the response of the controller


@pytest.mark.parametrize(
    ("is_current", "epoch", "partition_epoch", "is_applied"),
    [
        (True, 0, 1, True),
        (True, 0, 0, True),
        (True, 0, -1, False),
        (True, 1, 1, False),
        (True, -1, 1, False),
        (False, 0, 1, False),
    ],
)
def test_response_applies_to_the_proposal_in_flight_and_its_epochs(
    is_current: bool, epoch: int, partition_epoch: int, is_applied: bool
) -> None:
    partition = leader_of(LEADER, FOLLOWER)
    proposal = partition.propose_shrinking(NOW + LAG_MS + 1)
    assert proposal is not None and partition.high_watermark == 0
    answered = proposal if is_current else IsrProposal(*proposal)
    late = NOW + LAG_MS + 1
    assert partition.accepted(answered, (LEADER,), epoch, partition_epoch, late) == is_applied
    assert partition.isr == ((LEADER,) if is_applied else (LEADER, FOLLOWER))
    assert partition.high_watermark == (10 if is_applied else 0)
    assert partition.partition_epoch == (partition_epoch if is_applied else 0)
    assert (partition.proposal is None) == is_applied


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "changes", "stays"),
    [(0, 0, False, True), (0, 1, False, False), (1, 0, True, False), (1, 1, True, False)],
)
def test_newer_metadata_ends_a_proposal(leader_epoch: int, partition_epoch: int, changes: bool, stays: bool) -> None:
    partition = leader_of(LEADER, FOLLOWER)
    proposal = partition.propose_shrinking(NOW + LAG_MS + 1)
    registration = Registration(REPLICAS, (LEADER, FOLLOWER), LEADER, leader_epoch, partition_epoch)
    assert partition.apply(registration, NOW) == changes
    assert partition.proposal is (proposal if stays else None)


# ---- the high watermark


def test_maximal_isr_has_the_members_of_both_sets_once() -> None:
    assert maximal((0, 1), None) == (0, 1)
    assert maximal((0, 1), IsrProposal((0, 1, 2), 0, 0)) == (0, 1, 2)
    assert maximal((0, 1, 2), IsrProposal((0,), 0, 0)) == (0, 1, 2)


def test_replica_that_is_about_to_join_holds_the_high_watermark_back_until_that_is_decided() -> None:
    partition = leader_of(LEADER)
    partition.follower_fetched(THIRD, 10, NOW)
    proposal = partition.propose_joining(THIRD)
    assert proposal is not None and partition.maximal_isr == (LEADER, THIRD)
    late = NOW + LAG_MS + 1
    assert not partition.appended(12, late) and partition.high_watermark == 10
    partition.withdraw(proposal)
    assert partition.appended(13, late) and partition.high_watermark == 13


@pytest.mark.parametrize(
    ("offset", "after_ms", "may_join", "high_watermark"),
    [(8, 0, True, 8), (8, LAG_MS, True, 8), (8, LAG_MS + 1, True, 10), (8, 0, False, 10)],
)
def test_follower_that_may_join_soon_holds_the_high_watermark_back(
    offset: int, after_ms: int, may_join: bool, high_watermark: int
) -> None:
    partition = leader_of(LEADER, FOLLOWER)
    partition.may_join = lambda replica, epoch: may_join
    partition.followers[THIRD].last_caught_up_ms = NOW
    partition.follower_fetched(THIRD, offset, NOW)
    partition.follower_fetched(FOLLOWER, 10, NOW + after_ms)
    assert partition.high_watermark == high_watermark


@pytest.mark.parametrize(
    ("minimum", "replicas", "isr", "is_enough"),
    [
        (1, REPLICAS, (LEADER,), True),
        (2, REPLICAS, (LEADER,), False),
        (2, REPLICAS, (LEADER, FOLLOWER), True),
        (3, REPLICAS, (LEADER, FOLLOWER), False),
        (5, REPLICAS, REPLICAS, True),
        (2, (LEADER,), (LEADER,), True),
    ],
)
def test_high_watermark_waits_for_the_least_number_of_in_sync_replicas(
    minimum: int, replicas: tuple[int, ...], isr: tuple[int, ...], is_enough: bool
) -> None:
    partition = ReplicaRole(LEADER, 10, 0)
    partition.min_insync_replicas = minimum
    partition.apply(Registration(replicas, isr, LEADER), NOW)
    for replica in isr[1:]:
        partition.follower_fetched(replica, 10, NOW)
    assert partition.has_enough_in_sync == is_enough
    assert partition.least_in_sync == min(minimum, len(replicas))
    assert partition.high_watermark == (10 if is_enough else 0)


def test_append_advances_the_high_watermark_only_without_other_members() -> None:
    alone = leader_of(LEADER)
    assert alone.appended(12, NOW + LAG_MS + 1) and alone.high_watermark == 12
    assert not alone.appended(12, NOW), "nothing was appended"
    shared = leader_of(LEADER, FOLLOWER)
    assert not shared.appended(12, NOW) and shared.high_watermark == 0
    follower = ReplicaRole(LEADER, 10, 5)
    follower.apply(Registration(REPLICAS, REPLICAS, FOLLOWER), NOW)
    assert not follower.appended(12, NOW) and follower.high_watermark == 5
    assert follower.follow(12) and not follower.follow(12) and not follower.follow(11)


@pytest.mark.parametrize(
    ("end", "start", "high_watermark"), [(10, 0, 8), (8, 0, 8), (7, 0, 7), (0, 0, 0), (9, 9, 9), (20, 20, 20)]
)
def test_truncation_keeps_the_high_watermark_within_the_log(end: int, start: int, high_watermark: int) -> None:
    partition = ReplicaRole(LEADER, 10, 8)
    partition.truncated(end, start)
    assert (partition.log_end_offset, partition.high_watermark) == (end, high_watermark)


# ---- epochs


def test_partition_has_no_leader_and_no_epoch_before_its_metadata() -> None:
    partition = ReplicaRole(LEADER, 10, 0)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (-1, -1, -1)
    assert partition.leader_epoch_start_offset == -1 and not partition.is_leader and partition.isr == ()
    assert partition.apply(Registration((LEADER,), (LEADER,), LEADER, 0, 0), NOW)
    assert partition.leader_epoch_start_offset == 10
    assert partition.apply(Registration((LEADER, 1), (1,), 1, 1, 1), NOW)
    assert partition.leader_epoch_start_offset == -1 and partition.followers == {} and not partition.is_leader
    assert partition.apply(Registration((LEADER, 1), (1,), -1, 2, 2), NOW)
    assert not partition.is_leader, "no leader is not broker 0"


@pytest.mark.parametrize(
    ("epoch", "of_leader", "of_follower"),
    [
        (-1, ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (0, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_request_with_the_current_epoch_or_none_goes_to_the_leader(
    epoch: int, of_leader: ErrorCode, of_follower: ErrorCode
) -> None:
    leader, follower = leader_of(LEADER, leader_epoch=1), leader_of(FOLLOWER, leader=FOLLOWER, leader_epoch=1)
    assert leader.error_for_epoch(epoch) == of_leader == leader.error_for_epoch(epoch, leader_only=False)
    assert follower.error_for_epoch(epoch) == of_follower
    any_replica = ErrorCode.NONE if of_follower is ErrorCode.NOT_LEADER_OR_FOLLOWER else of_follower
    assert follower.error_for_epoch(epoch, leader_only=False) == any_replica


def test_member_of_the_isr_that_did_not_fetch_yet_has_the_whole_lag_time() -> None:
    partition = leader_of(LEADER, FOLLOWER)
    assert {replica: one.last_caught_up_ms for replica, one in partition.followers.items()} == {FOLLOWER: NOW, THIRD: 0}
    assert partition.propose_shrinking(NOW + LAG_MS) is None
    assert partition.propose_shrinking(NOW + LAG_MS + 1) is not None


@pytest.mark.parametrize(
    ("offset", "last_epoch", "known", "expected"),
    [
        (5, 1, (1, 5), None),
        (5, 1, (1, 6), None),
        (5, 1, (1, 4), (1, 4)),
        (5, 1, (0, 5), (0, 5)),
        (5, 1, (0, 3), (0, 3)),
        (5, 0, (-1, -1), (-1, -1)),
        (0, 0, (0, 0), None),
    ],
)
def test_log_diverges_where_the_leader_has_less_of_the_epoch_or_an_older_one(
    offset: int, last_epoch: int, known: tuple[int, int], expected: tuple[int, int] | None
) -> None:
    assert diverging(offset, last_epoch, *known) == expected


# ---- reads


def test_low_watermark_is_the_least_start_of_the_brokers_that_may_join() -> None:
    partition = leader_of(*REPLICAS)
    partition.follower_fetched(FOLLOWER, 10, NOW, log_start_offset=4)
    partition.follower_fetched(THIRD, 10, NOW, log_start_offset=0)
    assert partition.low_watermark(5) == 0
    partition.may_join = lambda replica, epoch: replica == FOLLOWER and epoch == -1
    assert partition.low_watermark(5) == 4 and partition.low_watermark(3) == 3


@pytest.mark.parametrize(
    ("offset", "found"), [(1, [THIRD]), (2, [FOLLOWER, THIRD]), (8, [FOLLOWER, THIRD]), (9, [FOLLOWER])]
)
def test_candidates_have_the_offset_at_both_ends_of_their_logs(offset: int, found: list[int]) -> None:
    partition = leader_of(*REPLICAS)
    partition.follower_fetched(FOLLOWER, 10, NOW, log_start_offset=2)
    partition.follower_fetched(THIRD, 8, NOW, log_start_offset=0)
    assert [one.broker_id for one in candidates(partition, offset)] == found
    assert [one.broker_id for one in candidates(partition, 10)] == [FOLLOWER]
    assert list(candidates(partition, 11)) == []


def test_broker_zero_in_the_rack_of_the_client_is_the_nearest() -> None:
    racks: dict[int, str | None] = {0: "a", 1: "b"}
    assert nearest([CaughtUpFollower(5, 0, 0), CaughtUpFollower(9, 0, 1)], "a", "b", racks) == 0
    assert nearest([CaughtUpFollower(5, 0, 0)], "a", None, racks) == 0
    assert nearest([CaughtUpFollower(5, 0, 0)], "a", "a", racks) == -1
    assert nearest([], "a", "b", racks) == -1
