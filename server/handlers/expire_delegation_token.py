"""ExpireDelegationToken (key 40), versions 1-2: brings the expiry of a token forward, or ends it at once (KIP-48).

The client is authenticated, and not by a token; it is the owner or a renewer. The active controller decides
(`replication/controller/security/delegation_tokens.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.expire_delegation_token import ExpireDelegationTokenResponse
from ..api.delegation_tokens import may_ask_for_tokens
from .forwarded import to_controller

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import NodeServices


def handle(services: NodeServices, call: Call) -> ExpireDelegationTokenResponse | None:
    if not may_ask_for_tokens(services.config, call):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)
    to_controller(services, call)
    return None
