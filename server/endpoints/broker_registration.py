"""BrokerRegistration: an incarnation of a broker registers (KIP-631).

Decided in `replication/controller/brokers.py`, by way of the sessions of brokers on the active controller.

Contract: `protocol/messages/broker_registration.py`.
"""

from __future__ import annotations

from ...protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ..access.authorization.usual_requirements import OF_NODES
from ..controller.request_places import BROKER_SESSIONS
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[BrokerRegistrationRequest, BrokerRegistrationResponse] = ApiEndpoint(
    authorization=(OF_NODES,),
    place=BROKER_SESSIONS,
    most_items=1000,
)
