"""SaslHandshake (key 17), versions 0-1: the client names its SASL mechanism (KIP-43, KIP-152).

On a listener without SASL, and after the authentication, it is ILLEGAL_SASL_STATE, unless it begins the
re-authentication of a session that has an end (KIP-368). See `server/access/authentication/authentication.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl import SaslHandshakeResponse
from ..access.authorization.requirements import Nothing
from ..network.api_endpoint import ApiEndpoint

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import NodeServices


def handle(services: NodeServices, call: Call) -> SaslHandshakeResponse | None:
    gate = call.connection.sasl_gate
    if gate is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return gate.handshake(call)


ENDPOINT = ApiEndpoint(handle=handle, authorization=(Nothing("It comes before the authentication."),))
