"""ElectLeaders (key 43), versions 0-2: preferred and unclean elections (KIP-460).

Decided in `replication/controller/reassignments.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ..access.authorization.requirements import on_cluster
from ..controller.driver import ACTIVE_CONTROLLER
from ..network.api_endpoint import SMALL_RESERVE, ApiEndpoint, Portioning

ENDPOINT = ApiEndpoint(
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("topic_partitions", "partitions"), ("replica_election_results", "partition_result")),),
    log_reserve=SMALL_RESERVE,
)
