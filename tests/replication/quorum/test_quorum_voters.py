"""Vote arithmetic: majorities, replicated offsets, and the history of voter sets."""

from __future__ import annotations

from itertools import product

import pytest
from odradek.replication.quorum.voters import ReplicaKey, Tally, Voter, VoterHistory, VoterSet


def voters(*ids: int) -> VoterSet:
    return VoterSet.of(Voter(ReplicaKey(id, bytes([id]) * 16)) for id in ids)


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majority_is_more_than_half(count: int, majority: int) -> None:
    assert voters(*range(1, count + 1)).majority == majority


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_replicated_offset_is_largest_that_majority_has(count: int) -> None:
    members = voters(*range(1, count + 1))
    for ends in product(range(4), repeat=count):
        offset = members.replicated_offset(dict(zip(members.ids, ends)))
        assert sum(end >= offset for end in ends) >= members.majority
        assert sum(end >= offset + 1 for end in ends) < members.majority


def test_non_voters_are_not_counted() -> None:
    assert voters(1, 2, 3).replicated_offset({1: 5, 9: 7, 8: 7}) == 0
    tally = Tally(voters(1, 2, 3))
    tally.record(9, True)
    tally.record(1, True)
    assert not tally.is_won
    tally.record(2, True)
    assert tally.is_won


def test_empty_voter_set_commits_nothing() -> None:
    assert VoterSet().replicated_offset({1: 5}) == 0
    assert not Tally(VoterSet()).is_won


def test_first_vote_counts_and_election_is_lost_without_possible_majority() -> None:
    tally = Tally(voters(1, 2, 3))
    tally.record(2, False)
    tally.record(2, True)
    assert tally.granted == set() and not tally.is_lost and tally.unanswered == [1, 3]
    tally.record(3, False)
    assert tally.is_lost


def test_other_directory_is_other_voter_and_unknown_directory_matches() -> None:
    members = voters(1, 2, 3)
    assert ReplicaKey(1, bytes([1]) * 16) in members
    assert ReplicaKey(1, bytes([9]) * 16) not in members
    assert ReplicaKey(1) in members


def test_majorities_of_sets_that_differ_by_one_voter_overlap() -> None:
    members = voters(1, 2, 3)
    assert members.has_overlapping_majority(members.without(2))
    assert members.has_overlapping_majority(members.with_voter(Voter(ReplicaKey(4))))
    assert not members.has_overlapping_majority(voters(1, 4, 5))


def test_voter_set_survives_record_round_trip() -> None:
    members = voters(3, 1, 2)
    assert VoterSet.from_record(members.to_record()) == members


def test_truncating_log_drops_its_voter_sets() -> None:
    history = VoterHistory(voters(1), 1)
    history.add(4, voters(1, 2))
    history.add(9, voters(1, 2, 3))
    history.truncate(9)
    assert history.current == voters(1, 2) and history.current_offset == 4
    history.truncate(0)
    assert history.current == voters(1)


def test_history_returns_voters_of_any_offset() -> None:
    history = VoterHistory(voters(1))
    history.set_kraft_version(3, 1)
    history.add(4, voters(1, 2))
    assert history.at(0) == history.at(3) == (voters(1), 0)
    assert history.at(4) == (voters(1), 1)
    assert history.at(5) == history.at(99) == (voters(1, 2), 1)
