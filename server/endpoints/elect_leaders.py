"""ElectLeaders: preferred and unclean elections (KIP-460).

Decided in `replication/controller/elections.py`.

Contract: `protocol/messages/elect_leaders.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ...protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ..access.authorization.usual_requirements import on_cluster
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import SMALL_RESERVE, ApiEndpoint
from ..network.portions import Portioning

ENDPOINT: ApiEndpoint[ElectLeadersRequest, ElectLeadersResponse] = ApiEndpoint(
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("topic_partitions", "partitions"), ("replica_election_results", "partition_result")),),
    log_reserve=SMALL_RESERVE,
)
