"""UnregisterBroker: removes the registration of a broker that is gone (KIP-631).

Decided in `replication/controller/brokers.py`.

Contract: `protocol/messages/unregister_broker.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ...protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ..access.authorization.usual_requirements import on_cluster
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import SMALL_RESERVE, ApiEndpoint

ENDPOINT: ApiEndpoint[UnregisterBrokerRequest, UnregisterBrokerResponse] = ApiEndpoint(
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
    log_reserve=SMALL_RESERVE,
)
