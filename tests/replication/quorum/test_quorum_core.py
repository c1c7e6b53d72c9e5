"""The core of a replica of the quorum alone: who may stand, whose vote is granted, which epochs and leaders count.

The replica is node 0 with two other voters, unless a test has others. Its election timeout is 1000 to 1999 ms.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.control_records import KRaftVersionRecord
from odradek.protocol.messages.vote import VoteResponse
from odradek.protocol.records.control import ControlRecord, ControlType
from odradek.protocol.uuids import ZERO_UUID
from odradek.replication.quorum import wire
from odradek.replication.quorum.core import MAX_EPOCH_LEAP, Core, QuorumConfig
from odradek.replication.quorum.effects import ElectionState, Send, WriteState
from odradek.replication.quorum.elections import Elections
from odradek.replication.quorum.following import Following
from odradek.replication.quorum.log import ControlAt, SnapshotId
from odradek.replication.quorum.roles import (
    NEVER,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from odradek.replication.quorum.voters import BEFORE_THE_LOG, ReplicaKey, Tally, Voter, VoterHistory, VoterSet

from tests.replication.quorum.quorum_simulator import directory, voter
from tests.replication.quorum.toy_log import ToyLog

ME, OTHER, THIRD = (ReplicaKey(node, directory(node)) for node in range(3))
NOW = 10_000


class Drawn:
    """A source that always draws the same number, or the largest one below the stop."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def randrange(self, stop: int, /) -> int:
        return min(self.number, stop - 1)


def voters(*nodes: int) -> VoterSet:
    return VoterSet.of(voter(node) for node in nodes)


def make(nodes: Iterable[int] = (0, 1, 2), *, epoch: int = 3, records: int = 0, drawn: int = 0, **options: Any) -> Core:
    """Returns the core with `records` records of epoch 2 in its log."""
    log = ToyLog()
    for number in range(records):
        log.append(2, number)
    history, rng = VoterHistory(voters(*nodes), kraft_version=1), Drawn(drawn)
    acknowledged, config = options.pop("acknowledged", None), QuorumConfig("cluster", **options)
    return Core(ME, config, log, history, ElectionState(-1, epoch, -1, ZERO_UUID), rng, acknowledged)


def as_role(core: Core, role: Role) -> Core:
    core.role = role
    return core


# ---- epochs and leaders


@pytest.mark.parametrize(
    ("epoch", "leader", "expected"),
    [
        (4, 1, (Follower, 4, 1)),
        (4, -1, (Unattached, 4, -1)),
        (4, 0, (Unattached, 4, -1)),
        (4, -2, (Unattached, 4, -1)),
        (3, 1, (Follower, 3, 1)),
        (3, 0, (Unattached, 3, -1)),
        (3, -1, (Unattached, 3, -1)),
        (2, 1, (Unattached, 3, -1)),
        (3 + MAX_EPOCH_LEAP, 1, (Follower, 3 + MAX_EPOCH_LEAP, 1)),
        (4 + MAX_EPOCH_LEAP, 1, (Unattached, 3, -1)),
    ],
)
def test_leader_of_a_newer_epoch_is_followed_and_one_of_an_older_or_incredible_one_is_not(
    epoch: int, leader: int, expected: tuple[type, int, int]
) -> None:
    core = make()
    core.heard_of(epoch, leader, NOW)
    assert (type(core.role), core.epoch, core.role.leader_id) == expected


def test_node_zero_is_followed_like_any_other() -> None:
    core = Core(OTHER, QuorumConfig("cluster"), ToyLog(), VoterHistory(voters(0, 1)),
                ElectionState(-1, 3, -1, ZERO_UUID), Drawn())  # fmt: skip
    core.heard_of(3, 0, NOW)
    assert isinstance(core.role, Follower) and core.role.leader_id == 0
    assert core.take() == [WriteState(ElectionState(0, 3, -1, ZERO_UUID))]


def test_known_leader_of_an_epoch_is_not_replaced() -> None:
    core = make()
    core.heard_of(4, 1, NOW)
    core.heard_of(4, 2, NOW)
    core.heard_of(4, -1, NOW)
    assert isinstance(core.role, Follower) and core.role.leader_id == 1
    standing = as_role(make(), Prospective(3, Tally(voters(0, 1, 2)), leader_id=1))
    standing.heard_of(3, 2, NOW)
    assert isinstance(standing.role, Prospective)
    standing = as_role(make(), Prospective(3, Tally(voters(0, 1, 2))))
    standing.heard_of(3, 2, NOW)
    assert isinstance(standing.role, Follower)


def test_follower_has_the_fetch_timeout_to_reach_its_leader() -> None:
    core = make(fetch_timeout_ms=700)
    core.become_follower(4, 1, NOW)
    role: Any = core.role
    assert (role.fetch_deadline, role.update_voter_at) == (NOW + 700, NOW + 700)
    assert (role.has_fetched, role.is_described, role.snapshot, role.voted) == (False, False, None, None)


def test_vote_stays_within_its_epoch_only() -> None:
    for epoch, voted in ((3, OTHER), (4, None)):
        core = as_role(make(), Unattached(3, OTHER))
        core.become_follower(epoch, 2, NOW)
        assert core.role.voted == voted
        core = as_role(make(), Unattached(3, OTHER))
        core.become_unattached(epoch, NOW)
        assert core.role.voted == voted


# ---- times


@pytest.mark.parametrize(
    ("deadline", "expected"),
    [(NEVER, NOW + 1000), (NOW + 999, NOW + 999), (NOW + 1001, NOW + 1000), (NOW, NOW), (NOW - 1, NOW)],
)
def test_running_election_timeout_is_not_extended(deadline: int, expected: int) -> None:
    core = as_role(make(), Unattached(3, election_deadline=deadline))
    core.become_unattached(4, NOW)
    role: Any = core.role
    assert role.election_deadline == expected


def test_observer_has_no_election_timeout_and_a_former_follower_a_whole_one() -> None:
    core = make((1, 2))
    core.become_unattached(4, NOW)
    role: Any = core.role
    assert role.election_deadline == NEVER
    core = as_role(make(drawn=999), Follower(3, 1, fetch_deadline=NOW))
    core.become_unattached(3, NOW)
    role = core.role
    assert role.election_deadline == NOW + 1999


@pytest.mark.parametrize(("drawn", "timeout", "first"), [(0, 1000, 0), (10, 1010, 10), (5000, 1999, 49)])
def test_election_timeouts_are_drawn(drawn: int, timeout: int, first: int) -> None:
    core = make(drawn=drawn)
    assert (core.election_timeout(), core.first_election_timeout()) == (timeout, first)


def test_next_request_to_a_node_waits_for_the_response_or_its_timeout() -> None:
    core = make(request_timeout_ms=500, retry_backoff_ms=20)
    request = wire.fetch_request("cluster", ME, 3, SnapshotId(0, 0), 0)
    assert core.can_send(1, NOW) and core.can_send(1, 0) and core.send_at(1) == 0
    assert [core.send(1, request, NOW), core.send(2, request, NOW)] == [1, 2]
    assert not core.can_send(1, NOW + 499) and core.can_send(1, NOW + 500)
    assert not core.answered(1, 2, NOW, False) and not core.answered(3, 1, NOW, False)
    assert core.answered(1, 1, NOW + 5, False) and core.can_send(1, NOW + 5)
    assert not core.answered(1, 1, NOW + 6, False), "it is answered once"
    assert core.answered(2, 2, NOW + 5, True)
    assert not core.can_send(2, NOW + 24) and core.can_send(2, NOW + 25)
    core.back_off(1, NOW)
    assert not core.can_send(1, NOW + 19) and core.can_send(1, NOW + 20)
    assert [one.correlation for one in core.take() if isinstance(one, Send)] == [1, 2] and core.take() == []


def test_requests_of_an_earlier_role_are_not_waited_for() -> None:
    core = make()
    number = core.send(1, wire.fetch_request("cluster", ME, 3, SnapshotId(0, 0), 0), NOW)
    core.become_follower(4, 1, NOW)
    assert core.can_send(1, NOW) and not core.answered(1, number, NOW, False)


# ---- who may stand


@pytest.mark.parametrize(
    ("nodes", "changed_at", "now_nodes", "high_watermark", "may"),
    [
        ((0, 1, 2), None, None, 0, True),
        ((1, 2), None, None, 0, False),
        ((0, 1, 2), 5, (1, 2), 5, True),
        ((0, 1, 2), 5, (1, 2), 6, False),
        ((1, 2), 5, (1, 2, 3), 0, False),
        ((1, 2), 5, (0, 1, 2), 9, True),
    ],
)
def test_former_voter_may_stand_until_its_removal_is_committed(
    nodes: tuple[int, ...], changed_at: int | None, now_nodes: tuple[int, ...] | None, high_watermark: int, may: bool
) -> None:
    core = make(nodes, records=10)
    if changed_at is not None and now_nodes is not None:
        core.voters.add(changed_at, voters(*now_nodes))
    core.high_watermark = high_watermark
    assert core.may_stand == may


@pytest.mark.parametrize(
    ("lost", "lacks"), [(None, False), ((2, 5), False), ((2, 6), True), ((3, 0), True), ((1, 9), False)]
)
def test_replica_that_lost_acknowledged_records_does_not_stand(lost: tuple[int, int] | None, lacks: bool) -> None:
    """The log ends at offset 5, in epoch 2."""
    acknowledged = None if lost is None else SnapshotId(lost[1], lost[0])
    core = make(records=5, acknowledged=acknowledged)
    assert core.lacks_acknowledged == lacks and core.may_stand != lacks


@pytest.mark.parametrize(
    ("epoch", "offset", "lost", "is_up_to_date"),
    [
        (2, 5, None, True),
        (2, 4, None, False),
        (3, 0, None, True),
        (1, 9, None, False),
        (2, 5, (2, 6), False),
        (2, 6, (2, 6), True),
        (2, 5, (1, 9), True),
    ],
)
def test_log_is_up_to_date_with_all_that_this_one_has_or_had(
    epoch: int, offset: int, lost: tuple[int, int] | None, is_up_to_date: bool
) -> None:
    core = make(records=5, acknowledged=None if lost is None else SnapshotId(lost[1], lost[0]))
    assert core.is_log_up_to_date(epoch, offset) == is_up_to_date


# ---- votes


def vote(
    core: Core, candidate: ReplicaKey = OTHER, *, epoch: int = 3, last: tuple[int, int] = (2, 5), now: int = NOW,
    pre_vote: bool = False, called: ReplicaKey = ME,
) -> Any:  # fmt: skip
    """Returns the response to a vote request; `last` is the epoch and the end of the candidate's log."""
    request = wire.vote_request("cluster", called, candidate, epoch, SnapshotId(last[1], last[0]), pre_vote)
    elections = Elections(core, lambda now: None)
    return wire.response_of(elections.handle(request, request.topics[0].partitions[0], now))


TALLY = Tally(VoterSet({}))
ROLES: dict[str, Role] = {
    "unattached": Unattached(3),
    "unattached with a leader": Unattached(3, leader_id=2),
    "voted for it": Unattached(3, OTHER),
    "voted for another": Unattached(3, THIRD),
    "prospective": Prospective(3, TALLY),
    "prospective with a leader": Prospective(3, TALLY, leader_id=2),
    "prospective that voted for it": Prospective(3, TALLY, OTHER),
    "candidate": Candidate(3, TALLY, ME),
    "follower": Follower(3, 2, has_fetched=True),
    "follower without a response": Follower(3, 2),
    "follower that voted for it": Follower(3, 2, OTHER, has_fetched=True),
    "leader": Leader(3, ME, 0, 0),
    "resigned": Resigned(3, ME, 0),
}
GRANTED = {"unattached", "voted for it", "prospective", "prospective that voted for it", "follower that voted for it"}
PRE_GRANTED = set(ROLES) - {"follower", "follower that voted for it", "leader"}


@pytest.mark.parametrize("name", ROLES)
@pytest.mark.parametrize("pre_vote", [False, True])
def test_vote_is_granted_by_role_and_earlier_vote(name: str, pre_vote: bool) -> None:
    core = as_role(make(records=5), copy.deepcopy(ROLES[name]))
    response = vote(core, pre_vote=pre_vote)
    assert response.vote_granted == (name in (PRE_GRANTED if pre_vote else GRANTED))
    assert (response.error_code, response.leader_epoch, response.leader_id) == (0, 3, core.role.leader_id)
    if pre_vote:
        assert core.role.voted == ROLES[name].voted and core.take() == [], "it is not binding"
    elif response.vote_granted:
        assert core.role.voted == OTHER


@pytest.mark.parametrize("pre_vote", [False, True])
def test_vote_needs_a_log_that_has_all_of_this_one(pre_vote: bool) -> None:
    for last, granted in (((2, 5), True), ((2, 4), False), ((1, 9), False), ((3, 0), True)):
        assert vote(make(records=5), last=last, pre_vote=pre_vote).vote_granted == granted


@pytest.mark.parametrize(
    ("fields", "error", "epoch"),
    [
        ({"epoch": 2}, ErrorCode.FENCED_LEADER_EPOCH, 3),
        ({"epoch": 4}, ErrorCode.NONE, 4),
        ({"last": (-1, 5)}, ErrorCode.INVALID_REQUEST, 3),
        ({"last": (2, -1)}, ErrorCode.INVALID_REQUEST, 3),
        ({"last": (0, 0)}, ErrorCode.NONE, 3),
        ({"candidate": ReplicaKey(-1)}, ErrorCode.INVALID_REQUEST, 3),
        ({"candidate": ReplicaKey(0, directory(9))}, ErrorCode.NONE, 3),
        ({"called": ReplicaKey(1, directory(1))}, ErrorCode.INVALID_VOTER_KEY, 3),
        ({"called": ReplicaKey(0, directory(1))}, ErrorCode.INVALID_VOTER_KEY, 3),
        ({"called": ReplicaKey(0)}, ErrorCode.NONE, 3),
        ({"called": ReplicaKey(-1)}, ErrorCode.NONE, 3),
    ],
)
def test_vote_request_is_checked(fields: dict[str, Any], error: ErrorCode, epoch: int) -> None:
    core = make()
    response = vote(core, **fields)
    assert (response.error_code, response.leader_epoch) == (error, epoch) and core.epoch == epoch
    assert response.vote_granted == (error is ErrorCode.NONE)


@pytest.mark.parametrize(("nodes", "deadline"), [((0, 1, 2), NOW + 1000), ((1, 2), NEVER)])
def test_vote_gives_its_candidate_time_to_win(nodes: tuple[int, ...], deadline: int) -> None:
    core = make(nodes)
    role = Unattached(3, election_deadline=NOW + 1 if 0 in nodes else NEVER)
    assert vote(as_role(core, role)).vote_granted and role.election_deadline == deadline
    role.election_deadline = min(deadline, NOW + 7)
    kept = role.election_deadline
    assert vote(core, pre_vote=True).vote_granted and role.election_deadline == kept


# ---- elections


class Elected:
    """A replica that stands, and the epochs that it has led."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.led: list[int] = []
        self.elections = Elections(core, lambda now: self.led.append(core.epoch))

    def asked(self, now: int = NOW) -> list[tuple[int, bool]]:
        """Sends the requests that are due. Returns their nodes, and whether they are pre-votes."""
        self.elections.send(now)
        sent = [one for one in self.core.take() if isinstance(one, Send)]
        return [(one.node, one.request.topics[0].partitions[0].pre_vote) for one in sent]  # type: ignore[attr-defined]

    def respond(self, node: int, granted: bool, error: ErrorCode = ErrorCode.NONE, epoch: int | None = None) -> None:
        response: Any = wire.vote_response(error, -1, self.core.epoch if epoch is None else epoch, granted)
        assert isinstance(response, VoteResponse)
        self.elections.answered(node, response, NOW)


def test_replica_asks_for_pre_votes_then_for_votes_and_leads_with_a_majority() -> None:
    one = Elected(make())
    one.elections.stand(NOW)
    role: Any = one.core.role
    assert isinstance(role, Prospective) and (role.epoch, role.election_deadline) == (3, NOW + 1000)
    assert one.asked() == [(1, True), (2, True)] and one.asked() == []
    one.respond(1, True)
    role = one.core.role
    assert isinstance(role, Candidate) and (role.epoch, role.voted, role.election_deadline) == (4, ME, NOW + 1000)
    assert one.asked() == [(1, False), (2, False)] and one.led == []
    one.respond(2, True, epoch=3)
    assert one.led == [], "a vote of an earlier epoch does not count"
    one.respond(9, True)
    assert one.led == [], "it is no voter"
    one.respond(2, True)
    assert one.led == [4]


def test_only_voter_leads_at_once() -> None:
    one = Elected(make((0,)))
    one.elections.stand(NOW)
    assert one.led == [4] and one.asked() == []


@pytest.mark.parametrize(("drawn", "deadline"), [(0, NOW + 1), (10, NOW + 11), (999, NOW + 1000)])
def test_candidate_that_lost_waits_before_it_stands_again(drawn: int, deadline: int) -> None:
    one = Elected(make(drawn=drawn))
    one.elections.stand(NOW)
    one.respond(1, True)
    one.respond(1, False)
    role: Any = one.core.role
    assert isinstance(role, Candidate) and role.election_deadline == NOW + 1000 + drawn
    one.respond(2, False)
    assert isinstance(one.core.role, Candidate) and role.election_deadline == deadline
    one.elections.expire(deadline - 1)
    assert one.core.role is role
    one.elections.expire(deadline)
    assert isinstance(one.core.role, Prospective) and one.core.epoch == 4


@pytest.mark.parametrize("event", ["lost", "late"])
@pytest.mark.parametrize(("leader", "kind"), [(1, Follower), (-1, Unattached), (0, Unattached)])
def test_replica_that_lost_its_pre_vote_returns_to_its_leader(event: str, leader: int, kind: type[Role]) -> None:
    one = Elected(as_role(make(), Unattached(3, leader_id=leader)))
    one.elections.stand(NOW)
    if event == "lost":
        one.respond(1, False)
        assert isinstance(one.core.role, Prospective)
        one.respond(2, False)
    else:
        one.elections.expire(NOW + 999)
        assert isinstance(one.core.role, Prospective)
        one.elections.expire(NOW + 1000)
    assert isinstance(one.core.role, kind) and one.core.epoch == 3
    assert one.core.role.leader_id == (1 if leader == 1 else -1)


def test_failed_vote_request_is_repeated_after_the_backoff() -> None:
    one = Elected(make(retry_backoff_ms=20))
    one.elections.stand(NOW)
    assert one.asked() == [(1, True), (2, True)]
    one.respond(1, True, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert isinstance(one.core.role, Prospective)
    assert one.asked(NOW + 19) == [] and one.asked(NOW + 20) == [(1, True)]


def test_resigned_leader_begins_the_next_epoch_without_a_leader() -> None:
    one = Elected(as_role(make(), Resigned(3, ME, 0, election_deadline=NOW)))
    one.elections.expire(NOW - 1)
    assert isinstance(one.core.role, Resigned)
    one.elections.expire(NOW)
    assert isinstance(one.core.role, Unattached) and one.core.epoch == 4


@pytest.mark.parametrize(("nodes", "kind"), [((0, 1, 2), Prospective), ((1, 2), Unattached)])
def test_voter_stands_at_its_election_timeout(nodes: tuple[int, ...], kind: type[Role]) -> None:
    one = Elected(as_role(make(nodes), Unattached(3, election_deadline=NOW)))
    one.elections.expire(NOW - 1)
    assert isinstance(one.core.role, Unattached)
    one.elections.expire(NOW)
    assert isinstance(one.core.role, kind) and one.core.epoch == 3


# ---- voters


@pytest.mark.parametrize(
    ("count", "majority", "ends", "replicated"),
    [
        (1, 1, {0: 7}, 7),
        (2, 2, {0: 7, 1: 5}, 5),
        (3, 2, {0: 7, 1: 5, 2: 3}, 5),
        (3, 2, {0: 7}, 0),
        (4, 3, {0: 7, 1: 6, 2: 3, 3: 1}, 3),
        (5, 3, {0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 9: 9}, 3),
        (0, 1, {0: 7}, 0),
    ],
)
def test_offset_is_replicated_when_a_majority_has_it(
    count: int, majority: int, ends: dict[int, int], replicated: int
) -> None:
    found = voters(*range(count))
    assert (found.majority, found.replicated_offset(ends)) == (majority, replicated)


def test_replica_matches_by_id_and_by_directory_where_both_are_known() -> None:
    for one, other, matches in (
        (ReplicaKey(0, directory(0)), ReplicaKey(0, directory(0)), True),
        (ReplicaKey(0, directory(0)), ReplicaKey(0), True),
        (ReplicaKey(0), ReplicaKey(0, directory(1)), True),
        (ReplicaKey(0, directory(0)), ReplicaKey(0, directory(1)), False),
        (ReplicaKey(0), ReplicaKey(1), False),
    ):
        assert one.matches(other) == matches and (one in VoterSet.of([Voter(other)])) == matches
        assert VoterSet.of([Voter(other)]).is_only(one) == matches
    assert not voters(0, 1).is_only(ME)


@pytest.mark.parametrize(
    ("nodes", "overlaps"),
    [((0, 1, 2), True), ((0, 1), True), ((0, 1, 2, 3), True), ((0, 1, 3), False), ((0,), False), ((), False)],
)
def test_voter_sets_that_differ_by_one_voter_have_overlapping_majorities(
    nodes: tuple[int, ...], overlaps: bool
) -> None:
    assert voters(0, 1, 2).has_overlapping_majority(voters(*nodes)) == overlaps


def test_election_is_won_or_lost_by_the_first_votes_of_a_majority() -> None:
    tally = Tally(voters(0, 1, 2))
    states = []
    for node, granted in ((0, True), (9, True), (0, False), (1, False), (1, True), (2, False)):
        tally.record(node, granted)
        states.append((tally.is_won, tally.is_lost, tally.unanswered))
    assert states == [
        (False, False, [1, 2]), (False, False, [1, 2]), (False, False, [1, 2]), (False, False, [2]),
        (False, False, [2]), (False, True, []),
    ]  # fmt: skip


def test_voter_sets_of_the_log_apply_from_their_offsets_and_go_with_it() -> None:
    history = VoterHistory(voters(0), kraft_version=0)
    assert history.previous == history.current == voters(0) and history.current_offset == BEFORE_THE_LOG == -1
    history.add(0, voters(0, 1))
    history.set_kraft_version(0, 1)
    history.add(5, voters(0, 1, 2))
    assert (history.current, history.previous, history.current_offset) == (voters(0, 1, 2), voters(0, 1), 5)
    for end, nodes, version in ((0, (0,), 0), (-1, (0,), 0), (1, (0, 1), 1), (5, (0, 1), 1), (6, (0, 1, 2), 1)):
        assert history.at(end) == (voters(*nodes), version)
    history.truncate(6)
    assert history.current_offset == 5
    history.truncate(5)
    assert (history.current_offset, history.kraft_version) == (0, 1)
    history.forget()
    assert (history.current, history.current_offset, history.kraft_version) == (voters(0), -1, 0)


def test_high_watermark_advances_within_the_log_only() -> None:
    core = make(records=5)
    assert core.high_watermark == 0
    found = [(core.advance_high_watermark(offset), core.high_watermark) for offset in (0, 3, 3, 2, 9, 5)]
    assert found == [(False, 0), (True, 3), (False, 3), (False, 3), (True, 5), (False, 5)]
    log = ToyLog()
    log.append(2, 0)
    log.take_snapshot(1, True)
    started = Core(ME, QuorumConfig(""), log, VoterHistory(voters(0)), ElectionState(-1, 3, -1, ZERO_UUID), Drawn())
    assert started.high_watermark == 1


def test_control_records_change_the_voters_and_the_version() -> None:
    core = make()
    core.learn([
        ControlAt(4, ControlRecord(ControlType.KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=0))),
        ControlAt(5, ControlRecord(ControlType.KRAFT_VOTERS, voters(0, 7).to_record())),
    ])  # fmt: skip
    assert (core.voter_set.ids, core.voters.current_offset, core.voters.kraft_version) == ((0, 7), 5, 0)
    assert VoterSet.from_record(voters(0, 7).to_record()) == voters(0, 7)


# ---- observers


def test_observer_asks_one_node_after_another_for_the_leader() -> None:
    core = make((1, 2), bootstrap=(5,), drawn=1)
    following = Following(core, lambda now: None)
    asked = []
    for step in range(5):
        now = NOW + step * 2000
        following.send(now)
        asked += [one.node for one in core.take() if isinstance(one, Send)]
        following.send(now + 1999)
        assert core.take() == [], "one node is asked at a time"
    assert asked == [2, 5, 1, 2, 5]


def test_observer_without_nodes_to_ask_waits() -> None:
    core = make(())
    following = Following(core, lambda now: None)
    following.send(NOW)
    assert core.take() == [] and following.wants_to_send_at() is None


@pytest.mark.parametrize(
    ("rank", "longest", "candidates", "drawn", "wait"),
    [
        (0, 1000, 4, 999, 0),
        (1, 1000, 4, 0, 1),
        (1, 1000, 4, 999, 250),
        (2, 1000, 4, 999, 500),
        (9, 1000, 4, 999, 1000),
        (1, 1, 4, 999, 1),
        (1, 4, 4, 999, 1),
        (1, 8, 4, 999, 2),
        (1, 1000, 0, 999, 1000),
        (None, 1000, 4, 0, None),
    ],
)
def test_successors_of_a_leader_stand_one_after_the_other(
    rank: int | None, longest: int, candidates: int, drawn: int, wait: int | None
) -> None:
    core = as_role(
        make(drawn=drawn, election_backoff_max_ms=longest), Follower(3, 1, fetch_deadline=NOW + 5000, has_fetched=True)
    )
    Following(core, lambda now: None).leader_ends(1, rank, candidates, NOW)
    role: Any = core.role
    assert role.fetch_deadline == NOW + (5000 if wait is None else wait) and role.has_fetched == (wait is None)
    Following(core, lambda now: None).leader_ends(2, 0, candidates, NOW - 9)
    assert role.fetch_deadline == NOW + (5000 if wait is None else wait), "node 2 is not the leader"
