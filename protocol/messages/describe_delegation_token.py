"""DescribeDelegationToken (key 41): the tokens that the caller may see.

Null owners ask for all; tokens of others are shown to those who may describe them (KIP-48).

Versions 1-3, flexible from 2. Additions by version:
- 3: the requester of the token (KIP-373)
"""

from __future__ import annotations

from ..schema import BYTES, INT16, INT32, INT64, STRING, Message, Request, array, message, struct, wire
from .token_principals import TokenPrincipal


@message("1-3", flexible="2+", key=41)
class DescribeDelegationTokenRequest(Request["DescribeDelegationTokenResponse"]):
    owners: list[TokenPrincipal] | None = wire(array(TokenPrincipal), nullable="0+")


@struct
class DescribedDelegationToken(Message):
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
    token_requester_principal_type: str = wire(STRING, "3+")
    token_requester_principal_name: str = wire(STRING, "3+")
    issue_timestamp: int = wire(INT64)
    expiry_timestamp: int = wire(INT64)
    max_timestamp: int = wire(INT64)
    token_id: str = wire(STRING)
    hmac: bytes = wire(BYTES)
    renewers: list[TokenPrincipal] = wire(array(TokenPrincipal))


@message("1-3", flexible="2+", key=41)
class DescribeDelegationTokenResponse(Message):
    error_code: int = wire(INT16)
    tokens: list[DescribedDelegationToken] = wire(array(DescribedDelegationToken))
    throttle_time_ms: int = wire(INT32)
