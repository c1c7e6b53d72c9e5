"""BeginQuorumEpoch: a new leader of the quorum makes itself known (KIP-595, KIP-853).

Answered in `replication/quorum/replica.py`.

Contract: `protocol/messages/begin_quorum_epoch.py`.
"""

from __future__ import annotations

from ...protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ..access.authorization.usual_requirements import OF_NODES
from ..controller.request_places import QUORUM
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[BeginQuorumEpochRequest, BeginQuorumEpochResponse] = ApiEndpoint(
    authorization=(OF_NODES,),
    place=QUORUM,
)
