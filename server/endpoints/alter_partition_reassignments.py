"""AlterPartitionReassignments (key 45), versions 0-1: moves the replicas of partitions (KIP-455).

Decided in `replication/controller/reassignments.py`. A tool moves the partitions of a cluster in one request.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ..access.authorization.requirements import on_cluster
from ..controller.driver import ACTIVE_CONTROLLER
from ..network.api_endpoint import LARGE_RESERVE, ApiEndpoint, Portioning

ENDPOINT = ApiEndpoint(
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("topics", "partitions"), ("responses", "partitions")),),
    most_items=100_000,
    log_reserve=LARGE_RESERVE,
)
