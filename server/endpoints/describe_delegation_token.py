"""DescribeDelegationToken: the tokens of owners and renewers (KIP-48, KIP-373).

Null owners ask for all tokens, an empty list for none. A token is shown to its owner and renewers, and, without an
authorizer, to every authenticated client.

Contract: `protocol/messages/describe_delegation_token.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.acls import Operation, ResourceType
from ...metadata.delegation_tokens import may_renew, token_hmac
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ...protocol.messages.token_principals import TokenPrincipal
from ..access.authorization.requirements import Each
from ..controller.delegation_tokens import token_secret, tokens_precondition
from ..network.api_endpoint import ApiEndpoint

if TYPE_CHECKING:
    from ...metadata.image import DelegationTokenImage
    from ..network.call import Call
    from ..services import Services

_TOKENS = Each(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN)
_OWNERS = Each(Operation.DESCRIBE_TOKENS, ResourceType.USER)


def handle(services: Services, call: Call[DescribeDelegationTokenRequest]) -> DescribeDelegationTokenResponse:
    secret = token_secret(services.config)
    if not secret:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = call.request.owners
    wanted = None if owners is None else [f"{owner.principal_type}:{owner.principal_name}" for owner in owners]
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token_id, token, token_hmac(secret, token_id))
            for token_id, token in sorted(services.metadata.image.delegation_tokens.items())
            if (wanted is None or any(may_renew(token, owner) for owner in wanted))
            and (may_renew(token, call.principal) or _may_describe(services, call, token_id, token))
        ]
    )


def _may_describe(
    services: Services, call: Call[DescribeDelegationTokenRequest], token_id: str, token: DelegationTokenImage
) -> bool:
    """Returns whether the client may describe a token of others."""
    authorizer = services.access.authorizer
    return not _TOKENS.denies(authorizer, call, token_id) or not _OWNERS.denies(authorizer, call, token.owner)


def _described(token_id: str, token: DelegationTokenImage, hmac: bytes) -> DescribedDelegationToken:
    owner_type, _, owner = token.owner.partition(":")
    requester_type, _, requester = token.requester.partition(":")
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token_id,
        hmac=hmac,
        renewers=[
            TokenPrincipal(principal_type=kind, principal_name=name)
            for kind, _, name in (renewer.partition(":") for renewer in token.renewers)
        ],
    )


ENDPOINT: ApiEndpoint[DescribeDelegationTokenRequest, DescribeDelegationTokenResponse] = ApiEndpoint(
    handle=handle, precondition=tokens_precondition, authorization=(_TOKENS, _OWNERS), rejects_token_clients=True
)
