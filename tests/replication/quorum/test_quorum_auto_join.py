"""Auto join (KIP-1186): an observer asks to become a voter."""

from __future__ import annotations

import random
from typing import Any

import pytest
from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.replication.quorum import wire
from odradek.replication.quorum.core import QuorumConfig
from odradek.replication.quorum.effects import ElectionState, PeerResponse, Send
from odradek.replication.quorum.replica import QuorumReplica, Remembered
from odradek.replication.quorum.voters import Address, ReplicaKey, Voter, VoterHistory, VoterSet

from tests.replication.quorum.toy_log import ToyLog

LEADER, SELF = ReplicaKey(1, b"1" * 16), ReplicaKey(2, b"2" * 16)
FORMER = ReplicaKey(2, b"x" * 16)
ADDRESS = Address("CONTROLLER", "here", 9093)


def observer(*voters: ReplicaKey, auto_join: bool = True, kraft_version: int = 1) -> QuorumReplica:
    config = QuorumConfig("c", auto_join=auto_join, addresses=(ADDRESS,))
    history = VoterHistory(VoterSet.of(Voter(key, (ADDRESS,)) for key in voters), kraft_version)
    return QuorumReplica(SELF, config, ToyLog(), history, Remembered(ElectionState(1, 3)), random.Random(1), 0)


def asked_after(replica: QuorumReplica, now: int) -> list[Any]:
    """Returns the requests sent since then. All are answered, Fetches with an empty response."""
    found, at = [], 0
    while at <= now:
        replica.expire(at)
        for effect in replica.take():
            if isinstance(effect, Send):
                found.append(effect.request)
                replica.handle(PeerResponse(effect.node, effect.correlation, respond(effect.request)), at)
        at += 100
    return [request for request in found if not isinstance(request, FetchRequest)]


def respond(request: Any) -> Any:
    if isinstance(request, FetchRequest):
        return wire.fetch_response(1, 3, high_watermark=0)
    kind = AddRaftVoterResponse if isinstance(request, AddRaftVoterRequest) else RemoveRaftVoterResponse
    return kind(error_code=7)


def test_observer_asks_periodically_until_it_is_voter() -> None:
    asked = asked_after(observer(LEADER), 7_000)
    assert len(asked) == 3
    assert all(isinstance(request, AddRaftVoterRequest) for request in asked)
    assert (asked[0].voter_id, asked[0].voter_directory_id, asked[0].ack_when_committed) == (2, b"2" * 16, False)


def test_voter_with_former_directory_is_removed_first() -> None:
    (asked,) = asked_after(observer(LEADER, FORMER), 3_000)
    assert isinstance(asked, RemoveRaftVoterRequest)
    assert (asked.voter_id, asked.voter_directory_id) == FORMER


@pytest.mark.parametrize(
    "replica", [observer(LEADER, auto_join=False), observer(LEADER, kraft_version=0)], ids=["not told to", "static"]
)
def test_observer_does_not_ask(replica: QuorumReplica) -> None:
    assert asked_after(replica, 7_000) == []
