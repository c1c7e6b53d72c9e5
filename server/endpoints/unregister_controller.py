"""UnregisterController (key 94), version 0: removes the registration of a controller that is gone (KIP-1312).

Decided in `replication/controller/brokers.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ..access.authorization.requirements import on_cluster
from ..controller.driver import ACTIVE_CONTROLLER
from ..network.api_endpoint import SMALL_RESERVE, ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
    log_reserve=SMALL_RESERVE,
)
