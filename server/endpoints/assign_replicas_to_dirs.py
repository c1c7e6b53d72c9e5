"""AssignReplicasToDirs: the log directories of a broker's replicas (KIP-858).

Decided in `replication/controller/replica_directories.py`.

Contract: `protocol/messages/assign_replicas_to_dirs.py`.
"""

from __future__ import annotations

from ...protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from ..access.authorization.usual_requirements import OF_NODES
from ..controller.request_places import THIS_CONTROLLER
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[AssignReplicasToDirsRequest, AssignReplicasToDirsResponse] = ApiEndpoint(
    authorization=(OF_NODES,),
    place=THIS_CONTROLLER,
)
