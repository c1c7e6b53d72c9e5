"""UpdateRaftVoter (key 82), version 0: the new endpoints of a voter (KIP-853).

Answered in `replication/quorum/voter_changes.py`.
"""

from __future__ import annotations

from ..access.authorization.requirements import OF_NODES
from ..controller.driver import QUORUM
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=QUORUM,
)
