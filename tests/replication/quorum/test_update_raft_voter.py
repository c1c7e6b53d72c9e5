"""UpdateRaftVoter to a leader whose voters are in the log: errors and responses (KIP-853)."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoterVersions,
)
from odradek.protocol.messages.voter_listeners import VoterListener
from odradek.replication.quorum.effects import PeerRequest

from tests.replication.quorum.harness.transcript import Transcript
from tests.replication.quorum.quorum_simulator import directory

MOVED = [VoterListener("CONTROLLER", "elsewhere", 9093)]


def update(**fields: Any) -> UpdateRaftVoterRequest:
    plain = {
        "cluster_id": "cluster",
        "current_leader_epoch": 1,
        "voter_id": 3,
        "voter_directory_id": directory(3),
        "listeners": MOVED,
        "kraft_version_feature": VoterVersions(0, 1),
    }
    return UpdateRaftVoterRequest(**(plain | fields))


def ask(quorum: Transcript, node_id: int, request: UpdateRaftVoterRequest) -> list[UpdateRaftVoterResponse]:
    """Returns the immediate responses."""
    quorum.wire.clear()
    quorum.handle(node_id, PeerRequest((3, node_id, 999), request))
    responses = [message.response for _, _, message in quorum.wire if hasattr(message, "response")]
    return [response for response in responses if isinstance(response, UpdateRaftVoterResponse)]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"voter_id": 4}, ErrorCode.VOTER_NOT_FOUND),
        ({"voter_directory_id": directory(2)}, ErrorCode.VOTER_NOT_FOUND),
        ({"listeners": []}, ErrorCode.INVALID_REQUEST),
        ({"listeners": [VoterListener("ANOTHER", "elsewhere", 9093)]}, ErrorCode.INVALID_REQUEST),
        ({"kraft_version_feature": VoterVersions(0, 0)}, ErrorCode.INVALID_REQUEST),
        ({"kraft_version_feature": VoterVersions(2, 3), "voter_id": 4}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_update_returns_error_and_changes_nothing(
    quorum: Transcript, fields: dict[str, Any], error: ErrorCode
) -> None:
    before = quorum.replicas[1].voter_set
    (response,) = ask(quorum, 1, update(**fields))
    assert (response.error_code, response.current_leader) == (error, CurrentLeader(leader_id=1, leader_epoch=1))
    assert quorum.replicas[1].voter_set == before


def test_non_leader_returns_current_leader(quorum: Transcript) -> None:
    (response,) = ask(quorum, 2, update())
    assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert response.current_leader == CurrentLeader(leader_id=1, leader_epoch=1)


def test_update_is_answered_at_once_and_next_change_waits_for_commit(quorum: Transcript) -> None:
    (response,) = ask(quorum, 1, update())
    assert response.error_code == ErrorCode.NONE
    (moved,) = quorum.replicas[1].voter_set.voters[3].addresses
    assert moved.host == "elsewhere", "effective once appended"
    assert quorum.replicas[1].high_watermark < quorum.logs[1].end_offset
    (response,) = ask(quorum, 1, update(voter_id=2, voter_directory_id=directory(2)))
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert quorum.replicas[1].voter_set.voters[2].addresses[0].host == "c2"
