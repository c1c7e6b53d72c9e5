"""ListPartitionReassignments (key 46), version 0: partitions whose replicas are being moved (KIP-455).

Answered in `replication/controller/reassignments.py`, with the last decisions of the active controller.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ..access.authorization.requirements import on_cluster
from ..controller.driver import ACTIVE_CONTROLLER
from ..network.api_endpoint import ApiEndpoint, Portioning

ENDPOINT = ApiEndpoint(
    authorization=(on_cluster(Operation.DESCRIBE),),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("topics", "partition_indexes"), ("topics", "partitions")),),
)
