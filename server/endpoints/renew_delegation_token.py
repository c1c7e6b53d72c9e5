"""RenewDelegationToken: puts off the expiry of a token, up to its maximum lifetime (KIP-48).

The client is authenticated, and not by a token; it is the owner or a renewer. The active controller decides
(`replication/controller/delegation_tokens.py`).

Contract: `protocol/messages/renew_delegation_token.py`.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ..access.authorization.requirements import Nothing
from ..controller.delegation_tokens import tokens_precondition
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call


def _rejected(
    call: Call[RenewDelegationTokenRequest], error: ErrorCode, message: str | None
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1)


ENDPOINT: ApiEndpoint[RenewDelegationTokenRequest, RenewDelegationTokenResponse] = ApiEndpoint(
    precondition=tokens_precondition,
    authorization=(Nothing("The decision admits the owner and the renewers of the token only."),),
    reject=_rejected,
    place=ACTIVE_CONTROLLER,
    rejects_token_clients=True,
)
