"""EndQuorumEpoch (key 54), versions 0-1: the leader of the quorum steps down (KIP-595).

Answered in `replication/quorum/following.py`.
"""

from __future__ import annotations

from ..access.authorization.requirements import OF_NODES
from ..controller.driver import QUORUM
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=QUORUM,
)
