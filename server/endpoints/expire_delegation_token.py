"""ExpireDelegationToken: brings the expiry of a token forward, or ends it at once (KIP-48).

The client is authenticated, and not by a token; it is the owner or a renewer. The active controller decides
(`replication/controller/delegation_tokens.py`).

Contract: `protocol/messages/expire_delegation_token.py`.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ..access.authorization.requirements import Nothing
from ..controller.delegation_tokens import tokens_precondition
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call


def _rejected(
    call: Call[ExpireDelegationTokenRequest], error: ErrorCode, message: str | None
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1)


ENDPOINT: ApiEndpoint[ExpireDelegationTokenRequest, ExpireDelegationTokenResponse] = ApiEndpoint(
    precondition=tokens_precondition,
    authorization=(Nothing("The decision admits the owner and the renewers of the token only."),),
    reject=_rejected,
    place=ACTIVE_CONTROLLER,
    rejects_token_clients=True,
)
