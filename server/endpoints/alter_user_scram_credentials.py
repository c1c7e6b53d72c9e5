"""AlterUserScramCredentials (key 51), version 0: sets and deletes SCRAM credentials of users (KIP-554).

Decided in `replication/controller/security.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ..access.authorization.requirements import on_cluster
from ..controller.driver import ACTIVE_CONTROLLER
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
)
