"""RenewDelegationToken (key 39), versions 1-2: puts off the expiry of a token, up to its maximum lifetime (KIP-48).

The client is authenticated, and not by a token; it is the owner or a renewer. The active controller decides
(`replication/controller/security.py`).
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.credentials import RenewDelegationTokenResponse
from ..access.authorization.requirements import Nothing
from ..controller.delegation_tokens import tokens_precondition
from ..controller.driver import ACTIVE_CONTROLLER
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call


def _rejected(call: Call, error: ErrorCode, message: str | None) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1)


ENDPOINT = ApiEndpoint(
    precondition=tokens_precondition,
    authorization=(Nothing("The decision admits the owner and the renewers of the token only."),),
    reject=_rejected,
    place=ACTIVE_CONTROLLER,
    rejects_token_clients=True,
)
