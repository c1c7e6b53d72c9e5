"""BrokerHeartbeat: a broker is alive, and how far it has read the metadata log (KIP-631).

Decided in `replication/controller/brokers.py`, by way of the sessions of brokers on the active controller.

Contract: `protocol/messages/broker_heartbeat.py`.
"""

from __future__ import annotations

from ...protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ..access.authorization.usual_requirements import OF_NODES
from ..controller.request_places import BROKER_SESSIONS
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[BrokerHeartbeatRequest, BrokerHeartbeatResponse] = ApiEndpoint(
    authorization=(OF_NODES,),
    place=BROKER_SESSIONS,
)
