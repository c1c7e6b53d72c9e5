"""Vote: a candidate asks a voter for its vote (KIP-595, KIP-853, KIP-996).

Answered in `replication/quorum/elections.py`.

Contract: `protocol/messages/vote.py`.
"""

from __future__ import annotations

from ...protocol.messages.vote import VoteRequest, VoteResponse
from ..access.authorization.usual_requirements import OF_NODES
from ..controller.request_places import QUORUM
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[VoteRequest, VoteResponse] = ApiEndpoint(
    authorization=(OF_NODES,),
    place=QUORUM,
)
