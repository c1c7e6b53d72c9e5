"""UpdateRaftVoter (key 82), version 0: the new endpoints of a voter (KIP-853).

Answered in `replication/quorum/voter_changes.py`.
"""

from __future__ import annotations

from ..network.api_endpoint import ApiEndpoint
from ..quorum.places import QUORUM
from ..security.authorization.requirements import OF_NODES

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=QUORUM,
)
