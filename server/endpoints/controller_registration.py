"""ControllerRegistration (key 70), version 0: the endpoints and features of a controller of the quorum (KIP-919).

Decided in `replication/controller/brokers.py`.
"""

from __future__ import annotations

from ..access.authorization.requirements import OF_NODES
from ..controller.driver import THIS_CONTROLLER
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=THIS_CONTROLLER,
    most_items=1000,
)
