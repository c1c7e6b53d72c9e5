"""Requests and responses between voters that are not as they should be: errors, and when the next request is sent."""

from __future__ import annotations

import random
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.protocol.messages.fetch import EpochEndOffset, FetchRequest, FetchResponse
from odradek.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.protocol.messages.vote import VoteRequest, VoteResponse
from odradek.protocol.messages.voter_listeners import VoterListener
from odradek.protocol.node_ids import NO_NODE
from odradek.protocol.schema import Message
from odradek.replication.quorum import wire
from odradek.replication.quorum.core import MAX_EPOCH_LEAP, QuorumConfig
from odradek.replication.quorum.diverged_commit import DivergedCommit
from odradek.replication.quorum.effects import (
    ElectionState,
    PeerRequest,
    PeerResponse,
    Reply,
    Send,
)
from odradek.replication.quorum.log import SnapshotId
from odradek.replication.quorum.replica import QuorumReplica, Remembered
from odradek.replication.quorum.voters import ReplicaKey, VoterHistory, VoterSet

from tests.replication.quorum.harness.transcript import LATE_MS, Transcript
from tests.replication.quorum.quorum_simulator import directory, voter
from tests.replication.quorum.toy_log import ToyLog

BACKOFF_MS = 20


def answered(quorum: Transcript, node: int, request: Message) -> Any:
    """Returns the immediate response of a node; None if there is none."""
    quorum.replicas[node].handle(PeerRequest("token", request), quorum.now)
    replies = [one.response for one in quorum.replicas[node].take() if isinstance(one, Reply) and one.token == "token"]
    return replies[0] if replies else None


def sent(quorum: Transcript, node: int) -> list[Send]:
    """Returns what a node sends now that its deadlines have been looked at."""
    quorum.replicas[node].expire(quorum.now)
    return [one for one in quorum.replicas[node].take() if isinstance(one, Send)]


@pytest.mark.parametrize(
    ("voter_id", "of_directory", "error"),
    [
        (2, 2, ErrorCode.NONE),
        # Version 0 does not name its receiver.
        (NO_NODE, 2, ErrorCode.NONE),
        (NO_NODE, 3, ErrorCode.NONE),
        (3, 2, ErrorCode.INVALID_VOTER_KEY),
        (2, 3, ErrorCode.INVALID_VOTER_KEY),
    ],
)
def test_vote_for_another_voter_key_is_rejected(
    quorum: Transcript, voter_id: int, of_directory: int, error: ErrorCode
) -> None:
    named = ReplicaKey(voter_id, directory(of_directory))
    request = wire.vote_request("cluster", named, voter(3).key, 2, SnapshotId(3, 1), pre_vote=False)
    response = wire.response_of(answered(quorum, 2, request))
    assert (response.error_code, response.vote_granted) == (error, error is ErrorCode.NONE)


@pytest.mark.parametrize("request_", [VoteRequest(cluster_id="cluster"), FetchRequest(cluster_id="cluster")])
def test_request_about_no_partition_is_invalid(quorum: Transcript, request_: Message) -> None:
    assert answered(quorum, 2, request_).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("leap", "is_credible"), [(MAX_EPOCH_LEAP, True), (MAX_EPOCH_LEAP + 1, False)])
def test_request_of_an_epoch_that_no_quorum_can_reach_is_invalid(
    quorum: Transcript, leap: int, is_credible: bool
) -> None:
    request = wire.vote_request("cluster", voter(2).key, voter(3).key, 1 + leap, SnapshotId(3, 1), pre_vote=False)
    response = answered(quorum, 2, request)
    assert response.error_code == (ErrorCode.NONE if is_credible else ErrorCode.INVALID_REQUEST)
    assert quorum.replicas[2].epoch == (1 + leap if is_credible else 1)


@pytest.mark.parametrize("response", [FetchResponse(error_code=ErrorCode.INVALID_REQUEST), VoteResponse(error_code=42)])
def test_response_with_only_an_error_names_no_leader(response: Message) -> None:
    assert wire.leader_response(response) is None


@pytest.mark.parametrize(
    ("response", "waits"),
    [
        (None, True),
        (FetchResponse(error_code=ErrorCode.INVALID_REQUEST), True),
        (wire.fetch_response(1, 1, high_watermark=3), False),
    ],
)
def test_next_fetch_waits_for_the_backoff_after_a_failure_only(
    quorum: Transcript, response: Message | None, waits: bool
) -> None:
    follower = quorum.replicas[2]
    quorum.append(1)
    (number_of_fetch,) = [message.correlation for _, target, message in quorum.wire if target == 2]
    for number in (number_of_fetch - 1, number_of_fetch + 1):
        follower.handle(PeerResponse(1, number, wire.fetch_response(1, 1, high_watermark=3)), quorum.now)
        assert follower.take() == [], "no response to the last request"
    follower.handle(PeerResponse(1, number_of_fetch, response), quorum.now)
    first = [one for one in follower.take() if isinstance(one, Send)]
    assert bool(first) != waits
    quorum.now += BACKOFF_MS - 1
    assert not waits or sent(quorum, 2) == []
    quorum.now += 1
    assert not waits or [one.node for one in sent(quorum, 2)] == [1]


def add(number: int) -> AddRaftVoterRequest:
    listeners = [VoterListener("CONTROLLER", f"c{number}", 9093)]
    return AddRaftVoterRequest(
        cluster_id="cluster",
        timeout_ms=30_000,
        voter_id=number,
        voter_directory_id=directory(number),
        listeners=listeners,
    )


def test_change_of_the_voters_waits_for_the_one_before_it(quorum: Transcript) -> None:
    """The first change has written nothing yet: the leader asks the new voter for its versions."""
    assert answered(quorum, 1, add(4)) is None
    second = answered(quorum, 1, add(5))
    assert isinstance(second, AddRaftVoterResponse) and second.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_change_of_the_voters_waits_for_the_commit_of_the_one_before_it(quorum: Transcript) -> None:
    leader = quorum.replicas[1]

    def remove(number: int) -> RemoveRaftVoterResponse | None:
        request = RemoveRaftVoterRequest(cluster_id="cluster", voter_id=number, voter_directory_id=directory(number))
        found: RemoveRaftVoterResponse | None = answered(quorum, 1, request)
        return found

    assert remove(3) is None
    end = quorum.logs[1].end_offset
    assert leader.high_watermark < end
    second = remove(2)
    assert second is not None and second.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_vote_whose_response_was_lost_is_granted_again(quorum: Transcript) -> None:
    """The candidate sends it again; no other candidate gets the vote of that epoch."""
    granted = []
    for number in (3, 3, 1):
        request = wire.vote_request("cluster", voter(2).key, voter(number).key, 2, SnapshotId(9, 1), pre_vote=False)
        response = wire.response_of(answered(quorum, 2, request))
        assert response.error_code == ErrorCode.NONE
        granted.append(response.vote_granted)
    assert granted == [True, True, False]


@pytest.mark.parametrize(
    "response", [None, VoteResponse(error_code=42), wire.vote_response(ErrorCode(42), NO_NODE, 1, False)]
)
def test_vote_that_fails_is_no_rejection_and_is_requested_again(quorum: Transcript, response: Message | None) -> None:
    """A candidate that counted it as a rejection would give up, though a majority may want it."""
    candidate = quorum.replicas[2]
    quorum.now += LATE_MS
    first = {one.node: one for one in sent(quorum, 2) if isinstance(one.request, VoteRequest)}
    assert first.keys() == {1, 3}
    for node, one in first.items():
        candidate.handle(PeerResponse(node, one.correlation, response), quorum.now)
        assert not [found for found in candidate.take() if isinstance(found, Send)]
    quorum.now += BACKOFF_MS
    assert {one.node for one in sent(quorum, 2) if isinstance(one.request, VoteRequest)} == {1, 3}


@pytest.mark.parametrize(
    ("position", "diverging"),
    [
        (SnapshotId(0, 0), None),
        (SnapshotId(2, 1), None),
        # An epoch that the leader never had, and more entries of an epoch than it has.
        (SnapshotId(2, 3), "epoch"),
        (SnapshotId(50, 1), "end"),
    ],
)
def test_leader_names_the_last_common_offset_to_a_follower_whose_log_diverges(
    quorum: Transcript, position: SnapshotId, diverging: str | None
) -> None:
    log = quorum.logs[1]
    assert log.end_offset > 2 and log.last_epoch == 1
    request = wire.fetch_request("cluster", voter(2).key, 1, position, 0)
    request.max_wait_ms = 0
    found = wire.response_of(answered(quorum, 1, request))
    assert found.error_code == ErrorCode.NONE
    expected = (-1, -1) if diverging is None else (1, log.end_offset)
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == expected
    assert bool(found.records) == (diverging is None)


def test_observers_begin_to_ask_for_the_leader_at_different_nodes() -> None:
    """Otherwise all of them would ask the same node, which may be the one that is down."""
    first = set()
    for seed in range(20):
        config = QuorumConfig("cluster", bootstrap=(-2, -3, -4))
        history, rng = VoterHistory(VoterSet.of(()), 1), random.Random(seed)
        observer = QuorumReplica(voter(9).key, config, ToyLog(), history, Remembered(ElectionState()), rng, 0)
        observer.expire(0)
        asked = [one.node for one in observer.take() if isinstance(one, Send)]
        assert len(asked) == 1
        first.update(asked)
    assert first == {-2, -3, -4}


@pytest.mark.parametrize("epoch", [0, 1])
def test_follower_truncates_to_the_last_common_epoch_but_not_below_what_is_committed(
    quorum: Transcript, epoch: int
) -> None:
    """A follower that ignored it would fetch from the same position for ever. Epoch 0 is an epoch, too."""
    follower, log = quorum.replicas[2], quorum.logs[2]
    committed = log.end_offset
    log.entries += [log.entries[-1]] * 3
    quorum.append(1)
    (number,) = [message.correlation for _, target, message in quorum.wire if target == 2]
    diverging = EpochEndOffset(epoch=epoch, end_offset=committed if epoch else 0)
    response = PeerResponse(1, number, wire.fetch_response(1, 1, high_watermark=committed, diverging_epoch=diverging))
    if epoch:
        follower.handle(response, quorum.now)
        assert log.end_offset == committed
    else:
        with pytest.raises(DivergedCommit):
            follower.handle(response, quorum.now)
