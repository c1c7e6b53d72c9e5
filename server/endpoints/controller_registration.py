"""ControllerRegistration: the endpoints and features of a controller of the quorum (KIP-919).

Decided in `replication/controller/brokers.py`.

Contract: `protocol/messages/controller_registration.py`.
"""

from __future__ import annotations

from ...protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from ..access.authorization.usual_requirements import OF_NODES
from ..controller.request_places import THIS_CONTROLLER
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[ControllerRegistrationRequest, ControllerRegistrationResponse] = ApiEndpoint(
    authorization=(OF_NODES,),
    place=THIS_CONTROLLER,
    most_items=1000,
)
