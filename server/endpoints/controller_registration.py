"""ControllerRegistration (key 70), version 0: the endpoints and features of a controller of the quorum (KIP-919).

Decided in `replication/controller/brokers.py`.
"""

from __future__ import annotations

from ..network.api_endpoint import ApiEndpoint
from ..quorum.places import THIS_CONTROLLER
from ..security.authorization.requirements import OF_NODES

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=THIS_CONTROLLER,
    most_items=1000,
)
