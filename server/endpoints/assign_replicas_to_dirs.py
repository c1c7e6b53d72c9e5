"""AssignReplicasToDirs (key 73), version 0: the log directories of a broker's replicas (KIP-858).

Decided in `replication/controller/alter_partition.py`.
"""

from __future__ import annotations

from ..access.authorization.requirements import OF_NODES
from ..controller.driver import THIS_CONTROLLER
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=THIS_CONTROLLER,
)
