"""BrokerRegistration (key 62), versions 0-4: an incarnation of a broker registers (KIP-631).

Decided in `replication/controller/brokers.py`, by way of the sessions of brokers on the active controller.
"""

from __future__ import annotations

from ..access.authorization.requirements import OF_NODES
from ..controller.driver import BROKER_SESSIONS
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=BROKER_SESSIONS,
    most_items=1000,
)
