"""CreateDelegationToken (key 38), versions 1-3: a token for the client, or for another owner (KIP-48, KIP-373).

The client is authenticated, and not by a token; renewers are users. The active controller makes the token
(`replication/controller/security/delegation_tokens.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.credentials import MAX_TOKEN_BYTES, token_bytes
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from ..api.delegation_tokens import may_ask_for_tokens
from ..security.authorization.controller_requests import may_create_token
from .forwarded import to_controller

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import NodeServices


def handle(services: NodeServices, call: Call) -> CreateDelegationTokenResponse | None:
    if not may_ask_for_tokens(services.config, call):
        return _error_response(call, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if services.authorizer is not None and not may_create_token(services.authorizer.session(call), call.request):
        return _error_response(call, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if any(renewer.principal_type != "User" for renewer in call.request.renewers):
        return _error_response(call, ErrorCode.INVALID_PRINCIPAL_TYPE)
    if token_bytes(renewer.principal_name for renewer in call.request.renewers) > MAX_TOKEN_BYTES:
        return _error_response(call, ErrorCode.POLICY_VIOLATION)
    to_controller(services, call)
    return None


def _error_response(call: Call, code: ErrorCode) -> CreateDelegationTokenResponse:
    request = call.request
    requester_type, _, requester = call.principal.partition(":")
    owner_type, owner = request.owner_principal_type, request.owner_principal_name
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=(owner_type or "") if owner else requester_type,
        principal_name=owner or requester,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
