"""AlterUserScramCredentials: sets and deletes SCRAM credentials of users (KIP-554).

Decided in `replication/controller/scram_credentials.py`.

Contract: `protocol/messages/alter_user_scram_credentials.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from ..access.authorization.usual_requirements import on_cluster
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse] = ApiEndpoint(
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
)
