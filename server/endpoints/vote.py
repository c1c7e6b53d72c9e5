"""Vote (key 52), versions 0-2: a candidate asks a voter for its vote (KIP-595, KIP-853, KIP-996).

Answered in `replication/quorum/core.py`.
"""

from __future__ import annotations

from ..access.authorization.requirements import OF_NODES
from ..controller.driver import QUORUM
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=QUORUM,
)
