"""RenewDelegationToken (key 39), versions 1-2: puts off the expiry of a token, up to its maximum lifetime (KIP-48).

The client is authenticated, and not by a token; it is the owner or a renewer. The active controller decides
(`replication/controller/security/delegation_tokens.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.renew_delegation_token import RenewDelegationTokenResponse
from ..api.delegation_tokens import may_ask_for_tokens
from .forwarded import to_controller

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import NodeServices


def handle(services: NodeServices, call: Call) -> RenewDelegationTokenResponse | None:
    if not may_ask_for_tokens(services.config, call):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)
    to_controller(services, call)
    return None
