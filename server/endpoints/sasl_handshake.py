"""SaslHandshake: the client names its SASL mechanism (KIP-43, KIP-152).

On a listener without SASL, and after the authentication, it is ILLEGAL_SASL_STATE, unless it begins the
re-authentication of a session that has an end (KIP-368). See `server/access/authentication/authentication.py`.

Contract: `protocol/messages/sasl_handshake.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ..access.authorization.requirements import Nothing
from ..network.api_endpoint import ApiEndpoint

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import NodeServices


def handle(services: NodeServices, call: Call[SaslHandshakeRequest]) -> SaslHandshakeResponse | None:
    gate = call.connection.sasl_gate
    if gate is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return gate.handshake(call)


ENDPOINT: ApiEndpoint[SaslHandshakeRequest, SaslHandshakeResponse] = ApiEndpoint(
    handle=handle, authorization=(Nothing("It comes before the authentication."),)
)
