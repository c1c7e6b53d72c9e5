"""AllocateProducerIds: a block of producer ids for a broker (KIP-730).

Decided in `replication/controller/producer_ids.py`. Without producer ids no new idempotent producer can write.

Contract: `protocol/messages/allocate_producer_ids.py`.
"""

from __future__ import annotations

from ...protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ..access.authorization.usual_requirements import OF_NODES
from ..controller.request_places import THIS_CONTROLLER
from ..network.api_endpoint import SMALL_RESERVE, ApiEndpoint

ENDPOINT: ApiEndpoint[AllocateProducerIdsRequest, AllocateProducerIdsResponse] = ApiEndpoint(
    authorization=(OF_NODES,),
    place=THIS_CONTROLLER,
    log_reserve=SMALL_RESERVE,
)
