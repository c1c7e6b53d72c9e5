"""UpdateRaftVoter: the new endpoints of a voter (KIP-853).

Answered in `replication/quorum/voter_changes.py`.

Contract: `protocol/messages/update_raft_voter.py`.
"""

from __future__ import annotations

from ...protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from ..access.authorization.usual_requirements import OF_NODES
from ..controller.request_places import QUORUM
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[UpdateRaftVoterRequest, UpdateRaftVoterResponse] = ApiEndpoint(
    authorization=(OF_NODES,),
    place=QUORUM,
)
