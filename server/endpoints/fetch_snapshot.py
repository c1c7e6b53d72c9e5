"""FetchSnapshot (key 59), versions 0-1: a part of a snapshot, for nodes whose log lags far (KIP-630).

Answered in `replication/quorum/leading.py`.
"""

from __future__ import annotations

from ..access.authorization.requirements import OF_NODES
from ..controller.driver import QUORUM
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=QUORUM,
)
