"""ListPartitionReassignments: partitions whose replicas are being moved (KIP-455).

Answered in `replication/controller/reassignments.py`, with the last decisions of the active controller.

Contract: `protocol/messages/list_partition_reassignments.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ..access.authorization.usual_requirements import on_cluster
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import ApiEndpoint
from ..network.portions import Portioning

ENDPOINT: ApiEndpoint[ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse] = ApiEndpoint(
    authorization=(on_cluster(Operation.DESCRIBE),),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("topics", "partition_indexes"), ("topics", "partitions")),),
)
