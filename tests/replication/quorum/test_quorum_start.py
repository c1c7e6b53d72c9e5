"""The first role of a replica, by what its directory and its log say about the quorum; node id 0 is among them."""

from __future__ import annotations

import random

import pytest
from odradek.replication.quorum.core import QuorumConfig
from odradek.replication.quorum.effects import ElectionState
from odradek.replication.quorum.log import SnapshotId
from odradek.replication.quorum.replica import QuorumReplica, Remembered
from odradek.replication.quorum.roles import NEVER, Candidate, Leader, Resigned, Role, Unattached
from odradek.replication.quorum.voters import ReplicaKey, Voter, VoterHistory, VoterSet

from .toy_log import ToyLog

DIRECTORY = bytes(range(16))


def started(
    voters: tuple[int, ...],
    state: ElectionState,
    *,
    node_id: int = 0,
    acknowledged: SnapshotId | None = None,
    log_epoch: int = 0,
) -> QuorumReplica:
    """Returns a replica of the node, created at time 1000 with the voters of its log."""
    log = ToyLog()
    if log_epoch:
        log.append(log_epoch, 0)
    history = VoterHistory(VoterSet.of(Voter(ReplicaKey(one, DIRECTORY)) for one in voters), 1)
    key = ReplicaKey(node_id, DIRECTORY)
    remembered = Remembered(state, acknowledged=acknowledged)
    return QuorumReplica(key, QuorumConfig("cluster"), log, history, remembered, random.Random(1), 1000)


@pytest.mark.parametrize("node_id", [0, 3])
@pytest.mark.parametrize(
    ("others", "is_voter", "lost_its_end", "role"),
    [
        ((), True, False, Leader),
        ((), True, True, Unattached),
        ((), False, False, Unattached),
        ((5,), True, False, Unattached),
        ((5,), True, True, Unattached),
        ((5,), False, False, Unattached),
    ],
)
def test_only_voter_with_its_whole_log_leads_at_once(
    others: tuple[int, ...], is_voter: bool, lost_its_end: bool, role: type[Role], node_id: int
) -> None:
    voters = (*others, *((node_id,) if is_voter else ()))
    acknowledged = SnapshotId(9, 3) if lost_its_end else None
    replica = started(voters, ElectionState(leader_epoch=3), node_id=node_id, acknowledged=acknowledged)
    found = replica.role
    assert isinstance(found, (role, Candidate) if role is Leader else role)
    assert replica.epoch == (4 if role is Leader else 3)
    if isinstance(found, Unattached):
        assert (found.election_deadline != NEVER) == (is_voter and not lost_its_end)


@pytest.mark.parametrize(("leader", "voted"), [(0, 0), (0, -1), (5, -1), (-1, 5), (-1, 0), (-1, -1)])
def test_former_leader_resigns_and_a_vote_stays(leader: int, voted: int) -> None:
    directory = DIRECTORY if voted >= 0 else bytes(16)
    replica = started((0, 5), ElectionState(leader, 7, voted, directory))
    role = replica.role
    assert replica.epoch == 7 and role.leader_id == leader
    if leader == 0:
        assert isinstance(role, Resigned) and role.voted == ReplicaKey(0, DIRECTORY)
        assert 1000 < role.election_deadline < NEVER
    else:
        assert isinstance(role, Unattached)
        assert role.voted == (ReplicaKey(voted, DIRECTORY) if voted >= 0 else None)


@pytest.mark.parametrize(("log_epoch", "epoch"), [(6, 7), (7, 7), (8, 8)])
def test_log_of_a_later_epoch_ends_the_one_of_the_directory(log_epoch: int, epoch: int) -> None:
    replica = started((0, 5), ElectionState(5, 7, 5, DIRECTORY), log_epoch=log_epoch)
    assert replica.epoch == epoch
    assert (replica.role.leader_id, getattr(replica.role, "voted", None) is None) == (
        (5, False) if epoch == 7 else (-1, True)
    )
