"""SaslAuthenticate: one token of the SASL exchange (KIP-152, KIP-368).

On a listener without SASL, and after the authentication, it is ILLEGAL_SASL_STATE. See
`server/access/authentication/authentication.py`.

Contract: `protocol/messages/sasl_authenticate.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ..access.authorization.requirements import Nothing
from ..network.api_endpoint import ApiEndpoint

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import NodeServices


def handle(services: NodeServices, call: Call[SaslAuthenticateRequest]) -> SaslAuthenticateResponse | None:
    gate = call.connection.sasl_gate
    if gate is None:
        shown = "SaslAuthenticate request received after successful authentication"
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=shown)
    return gate.authenticate(call)


ENDPOINT: ApiEndpoint[SaslAuthenticateRequest, SaslAuthenticateResponse] = ApiEndpoint(
    handle=handle, authorization=(Nothing("It is the authentication."),)
)
