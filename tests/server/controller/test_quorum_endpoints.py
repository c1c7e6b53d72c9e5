"""Endpoints of the quorum's nodes: whose requests a node believes, and which of several it uses."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.metadata.image import EMPTY_IMAGE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message
from odradek.replication.quorum import wire
from odradek.replication.quorum.log import SnapshotId
from odradek.replication.quorum.voters import Address, ReplicaKey, Voter, VoterSet
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller.quorum_requests import QuorumEndpoints
from odradek.server.controller.raft import QuorumRaft

from tests.server.harness.nodes import node_of
from tests.server.harness.noted_commits import NotedCommits
from tests.server.harness.quorum_drivers import Drive
from tests.server.harness.raft_engine import raft_of
from tests.server.harness.scripted_engine import ScriptedEngine

EPOCH = 5
OWN, LEADERS, FIRST = Endpoint("C", "own", 1), Endpoint("C", "leader", 2), Endpoint("C", "first", 3)
KEY = ReplicaKey(1)


def endpoints(voters: VoterSet | None = None, own: Endpoint = OWN, node_id: int = 1) -> QuorumEndpoints:
    return QuorumEndpoints(node_id, "cluster", lambda: voters or VoterSet.of(()), [own], {-2: FIRST})


def driver_with(raft: QuorumRaft | None, commits: NotedCommits | None = None) -> Drive:
    return Drive(node_of(), commits or NotedCommits(EMPTY_IMAGE), ScriptedEngine(), raft)


def announced(request: Any) -> Any:
    """Returns a request with the endpoint of its sender, as node 2 sends it."""
    endpoints(own=LEADERS, node_id=2).add_listener_endpoints(request)
    return request


@pytest.mark.parametrize(
    ("request_", "is_believed"),
    [
        (wire.begin_request("cluster", KEY, 2, EPOCH), True),
        (wire.begin_request("cluster", KEY, 2, EPOCH + 1), True),
        (wire.begin_request("cluster", KEY, 2, EPOCH - 1), False),
        (wire.begin_request(None, KEY, 2, EPOCH), True),
        (wire.begin_request("another", KEY, 2, EPOCH), False),
        (wire.begin_request("cluster", KEY, -1, EPOCH), False),
        (wire.end_request("cluster", 2, EPOCH, ()), True),
        (wire.end_request("cluster", 2, EPOCH - 1, ()), False),
        (wire.vote_request("cluster", KEY, ReplicaKey(2), EPOCH, SnapshotId(3, 1), pre_vote=False), False),
    ],
)
def test_endpoint_of_a_leader_is_learnt_from_its_own_announcements_only(request_: Message, is_believed: bool) -> None:
    found = endpoints()
    found.learn_leader(announced(request_), EPOCH)
    assert found.find(2) == (LEADERS if is_believed else None)


def test_own_endpoint_and_those_of_voters_precede_what_was_learnt() -> None:
    voter, address = Endpoint("C", "voter", 4), Address("C", "voter", 4)
    found = endpoints(VoterSet.of([Voter(ReplicaKey(2), (address,)), Voter(ReplicaKey(3))]))
    for leader_id in (1, 2, 3):
        found.learn_leader(announced(wire.begin_request("cluster", KEY, leader_id, EPOCH)), EPOCH)
    assert [found.find(node_id) for node_id in (1, 2, 3, -2, 9)] == [OWN, voter, LEADERS, FIRST, None]


@pytest.mark.parametrize("leader_id", [0, 7])
def test_leader_of_any_id_announces_itself(leader_id: int) -> None:
    request: Any = wire.begin_request("cluster", KEY, leader_id, EPOCH)
    endpoints(own=LEADERS, node_id=leader_id).add_listener_endpoints(request)
    found = endpoints()
    found.learn_leader(request, EPOCH)
    assert found.find(leader_id) == LEADERS
    response: Any = wire.vote_response(ErrorCode.NONE, leader_id, EPOCH, False)
    found.tell_of_leader(response, leader_id)
    assert [(one.node_id, one.host, one.port) for one in response.node_endpoints] == [(leader_id, "leader", 2)]
    unknown: Any = wire.vote_response(ErrorCode.NONE, -2, EPOCH, False)
    found.tell_of_leader(unknown, -2)
    assert list(unknown.node_endpoints) == [], "the address to begin with is no node's"


def test_first_endpoint_of_a_leader_counts() -> None:
    request: Any = wire.begin_request("cluster", KEY, 2, EPOCH)
    several = QuorumEndpoints(2, "cluster", lambda: VoterSet.of(()), [LEADERS, FIRST, OWN], {})
    several.add_listener_endpoints(request)
    assert len(request.leader_endpoints) == 3
    found = endpoints()
    found.learn_leader(request, EPOCH)
    assert found.find(2) == LEADERS


def test_response_names_the_endpoint_of_the_leader() -> None:
    asked, other = endpoints(own=LEADERS, node_id=2), endpoints()
    response = wire.vote_response(ErrorCode.NONE, 2, EPOCH, False)
    asked.tell_of_leader(response, 2)
    other.learn(response)
    assert other.find(2) == Endpoint("", "leader", 2)


def test_voters_without_a_known_endpoint_are_left_out() -> None:
    voters = VoterSet.of(Voter(ReplicaKey(node_id)) for node_id in (0, 1, 2))
    found = endpoints(voters, node_id=0)
    found.learn_leader(announced(wire.begin_request("cluster", KEY, 2, EPOCH)), EPOCH)
    assert driver_with(raft_of(voters, found)).voter_endpoints() == {0: OWN, 2: LEADERS}, "without node 1"
    assert driver_with(None).voter_endpoints() == {}


@pytest.mark.parametrize("leader_id", [-1, 0, 1, 2])
def test_endpoint_of_the_leader_is_that_of_its_id(leader_id: int) -> None:
    found = endpoints(node_id=0)
    found.learn_leader(announced(wire.begin_request("cluster", KEY, 2, EPOCH)), EPOCH)
    driver = driver_with(raft_of(endpoints=found))
    driver.is_led_by(leader_id)
    assert driver.leader_endpoint == {0: OWN, 2: LEADERS}.get(leader_id)


@pytest.mark.parametrize(
    ("in_transaction", "is_replaced", "is_written"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_snapshot_is_written_neither_inside_a_transaction_nor_of_replaced_commits(
    in_transaction: bool, is_replaced: bool, is_written: bool
) -> None:
    """Such a snapshot has a part of the transaction, or less than the one that was fetched."""
    image = EMPTY_IMAGE._replace(offset=7)
    commits = NotedCommits(image)
    commits.in_transaction, commits.is_replaced = in_transaction, is_replaced
    driver = driver_with(None, commits)
    assert driver.committed_now() == ((image, driver.engine.voters) if is_written else None)
    assert driver.engine.asked_at == ([8] if is_written else [])
