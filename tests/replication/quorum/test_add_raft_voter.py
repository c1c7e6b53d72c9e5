"""AddRaftVoter to a leader whose voters are in the log: errors, and the address used for the new voter."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.voter_listeners import VoterListener
from odradek.protocol.uuids import ZERO_UUID
from odradek.replication.quorum.effects import (
    Effect,
    PeerRequest,
    PeerResponse,
    Reply,
    Send,
)
from odradek.replication.quorum.voters import Address

from tests.replication.quorum.harness.transcript import Transcript
from tests.replication.quorum.quorum_simulator import directory

OTHER, ITS_OWN = VoterListener("ANOTHER", "away", 1), VoterListener("CONTROLLER", "c4", 9093)


def ask(quorum: Transcript, **fields: Any) -> list[Effect]:
    """Returns the immediate effects of a request."""
    plain = {
        "cluster_id": "cluster",
        "timeout_ms": 30_000,
        "voter_id": 4,
        "voter_directory_id": directory(4),
        "listeners": [OTHER, ITS_OWN],
    }
    leader = quorum.replicas[1]
    leader.handle(PeerRequest((4, 1, 999), AddRaftVoterRequest(**(plain | fields))), quorum.now)
    return list(leader.take())


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": 3}, ErrorCode.DUPLICATE_VOTER),
        ({"voter_id": -1}, ErrorCode.INVALID_REQUEST),
        ({"voter_directory_id": ZERO_UUID}, ErrorCode.INVALID_REQUEST),
        ({"listeners": []}, ErrorCode.INVALID_REQUEST),
        # Voters would not find it.
        ({"listeners": [OTHER]}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_request_returns_error(quorum: Transcript, fields: dict[str, Any], error: ErrorCode) -> None:
    (said,) = ask(quorum, **fields)
    assert isinstance(said, Reply) and isinstance(said.response, AddRaftVoterResponse)
    assert said.response.error_code == error


def test_new_voter_is_contacted_on_voters_listener(quorum: Transcript) -> None:
    (said,) = ask(quorum)
    assert (
        isinstance(said, Send)
        and isinstance(said.request, ApiVersionsRequest)
        and said.address == Address("CONTROLLER", "c4", 9093)
    )


@pytest.mark.parametrize(
    "versions", [None, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)], ids=["no response", "an error"]
)
def test_new_voter_that_does_not_show_its_versions_is_not_added(
    quorum: Transcript, versions: ApiVersionsResponse | None
) -> None:
    (asked,) = ask(quorum)
    assert isinstance(asked, Send)
    leader = quorum.replicas[1]
    leader.handle(PeerResponse(4, asked.correlation, versions), quorum.now)
    (said,) = (one for one in leader.take() if isinstance(one, Reply))
    assert isinstance(said.response, AddRaftVoterResponse)
    assert said.response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert 4 not in leader.voter_set.voters
