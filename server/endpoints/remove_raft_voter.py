"""RemoveRaftVoter: a voter leaves the quorum (KIP-853).

Answered in `replication/quorum/voter_changes.py`.

Contract: `protocol/messages/remove_raft_voter.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ...protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ..access.authorization.usual_requirements import IN_GENERAL_WORDS, on_cluster
from ..controller.request_places import QUORUM_LEADER
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[RemoveRaftVoterRequest, RemoveRaftVoterResponse] = ApiEndpoint(
    authorization=(on_cluster(Operation.ALTER, IN_GENERAL_WORDS),),
    place=QUORUM_LEADER,
)
