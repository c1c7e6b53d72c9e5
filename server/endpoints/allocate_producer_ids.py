"""AllocateProducerIds (key 67), version 0: a block of producer ids for a broker (KIP-730).

Decided in `replication/controller/producer_ids.py`. Without producer ids no new idempotent producer can write.
"""

from __future__ import annotations

from ..access.authorization.requirements import OF_NODES
from ..controller.driver import THIS_CONTROLLER
from ..network.api_endpoint import SMALL_RESERVE, ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=THIS_CONTROLLER,
    log_reserve=SMALL_RESERVE,
)
