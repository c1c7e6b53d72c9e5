"""BrokerHeartbeat (key 63), versions 0-2: a broker is alive, and how far it has read the metadata log (KIP-631).

Decided in `replication/controller/brokers.py`, by way of the sessions of brokers on the active controller.
"""

from __future__ import annotations

from ..access.authorization.requirements import OF_NODES
from ..controller.driver import BROKER_SESSIONS
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=BROKER_SESSIONS,
)
