"""AlterPartitionReassignments: moves the replicas of partitions (KIP-455).

Decided in `replication/controller/reassignments.py`. A tool moves the partitions of a cluster in one request.

Contract: `protocol/messages/alter_partition_reassignments.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ..access.authorization.usual_requirements import on_cluster
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import LARGE_RESERVE, ApiEndpoint
from ..network.portions import Portioning

ENDPOINT: ApiEndpoint[AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse] = ApiEndpoint(
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("topics", "partitions"), ("responses", "partitions")),),
    most_items=100_000,
    log_reserve=LARGE_RESERVE,
)
