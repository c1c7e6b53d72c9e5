"""CreateDelegationToken: a token for the client, or for another owner (KIP-48, KIP-373).

The client is authenticated, and not by a token; renewers are users. The active controller makes the token
(`replication/controller/delegation_tokens.py`).

Contract: `protocol/messages/create_delegation_token.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.acls import Operation, ResourceType
from ...metadata.delegation_tokens import MAX_TOKEN_BYTES, token_bytes
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ..access.authorization.requirements import NeedsBy
from ..controller.delegation_tokens import tokens_precondition
from ..controller.request_places import ACTIVE_CONTROLLER, to_controller
from ..network.api_endpoint import ApiEndpoint

if TYPE_CHECKING:
    from ..access.authorization.sessions import AuthorizationSession
    from ..network.call import Call
    from ..services import NodeServices


def handle(services: NodeServices, call: Call[CreateDelegationTokenRequest]) -> CreateDelegationTokenResponse | None:
    if any(renewer.principal_type != "User" for renewer in call.request.renewers):
        return _rejected(call, ErrorCode.INVALID_PRINCIPAL_TYPE, None)
    if token_bytes(renewer.principal_name for renewer in call.request.renewers) > MAX_TOKEN_BYTES:
        return _rejected(call, ErrorCode.POLICY_VIOLATION, None)
    to_controller(services, call)
    return None


def _authorized(session: AuthorizationSession, request: CreateDelegationTokenRequest) -> ErrorCode | None:
    """Returns the error of a client that may have no token for its owner: everyone may for themselves (KIP-373)."""
    owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    if not request.owner_principal_name or owner == session.principal:
        return None
    is_allowed = session.allows(Operation.CREATE_TOKENS, ResourceType.USER, owner)
    return None if is_allowed else ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def _rejected(
    call: Call[CreateDelegationTokenRequest], error: ErrorCode, message: str | None
) -> CreateDelegationTokenResponse:
    request = call.request
    requester_type, _, requester = call.principal.partition(":")
    owner_type, owner = request.owner_principal_type, request.owner_principal_name
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=(owner_type or "") if owner else requester_type,
        principal_name=owner or requester,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


ENDPOINT: ApiEndpoint[CreateDelegationTokenRequest, CreateDelegationTokenResponse] = ApiEndpoint(
    handle=handle,
    precondition=tokens_precondition,
    authorization=(NeedsBy("CREATE_TOKENS on the USER, if that is another", _authorized),),
    reject=_rejected,
    place=ACTIVE_CONTROLLER,
    is_authorized_twice=True,  # Kafka's brokers check it before the renewers
    rejects_token_clients=True,
)
