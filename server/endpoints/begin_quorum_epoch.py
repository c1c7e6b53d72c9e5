"""BeginQuorumEpoch (key 53), versions 0-1: a new leader of the quorum makes itself known (KIP-595, KIP-853).

Answered in `replication/quorum/replica.py`.
"""

from __future__ import annotations

from ..access.authorization.requirements import OF_NODES
from ..controller.driver import QUORUM
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=QUORUM,
)
