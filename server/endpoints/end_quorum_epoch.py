"""EndQuorumEpoch: the leader of the quorum steps down (KIP-595).

Answered in `replication/quorum/replica.py`.

Contract: `protocol/messages/end_quorum_epoch.py`.
"""

from __future__ import annotations

from ...protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ..access.authorization.usual_requirements import OF_NODES
from ..controller.request_places import QUORUM
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[EndQuorumEpochRequest, EndQuorumEpochResponse] = ApiEndpoint(
    authorization=(OF_NODES,),
    place=QUORUM,
)
