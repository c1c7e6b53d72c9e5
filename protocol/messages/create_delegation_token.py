"""CreateDelegationToken (key 38): a token by which others may authenticate as its owner.

Only on an authenticated connection that did not itself come by a token (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED). Needs
`delegation.token.secret.key` (KIP-48).

Versions 1-3, flexible from 2. Additions by version:
- 3: for another owner (KIP-373)
"""

from __future__ import annotations

from ..schema import BYTES, INT16, INT32, INT64, STRING, Message, Request, array, message, wire
from .token_principals import TokenPrincipal


@message("1-3", flexible="2+", key=38)
class CreateDelegationTokenRequest(Request["CreateDelegationTokenResponse"]):
    owner_principal_type: str | None = wire(STRING, "3+", nullable="3+")
    owner_principal_name: str | None = wire(STRING, "3+", nullable="3+")
    renewers: list[TokenPrincipal] = wire(array(TokenPrincipal))
    max_lifetime_ms: int = wire(INT64)


@message("1-3", flexible="2+", key=38)
class CreateDelegationTokenResponse(Message):
    error_code: int = wire(INT16)
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
    token_requester_principal_type: str = wire(STRING, "3+")
    token_requester_principal_name: str = wire(STRING, "3+")
    issue_timestamp_ms: int = wire(INT64)
    expiry_timestamp_ms: int = wire(INT64)
    max_timestamp_ms: int = wire(INT64)
    token_id: str = wire(STRING)
    hmac: bytes = wire(BYTES)
    throttle_time_ms: int = wire(INT32)
