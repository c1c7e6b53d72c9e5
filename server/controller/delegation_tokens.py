"""The parts that requests about delegation tokens share (KIP-48)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...metadata.configs import Password
from ...protocol.errors import ErrorCode
from ..access.listener_tls import ANONYMOUS

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..network.call import Call


class TokenServices(Protocol):
    """The parts of a node that these functions use."""

    @property
    def config(self) -> BrokerConfig: ...


def tokens_precondition(services: TokenServices, call: Call) -> ErrorCode:
    """Returns DELEGATION_TOKEN_REQUEST_NOT_ALLOWED unless the client is authenticated, and not by a token itself."""
    protocol = services.config.listeners.protocols.get(call.listener, "PLAINTEXT")
    is_anonymous = protocol == "PLAINTEXT" or (protocol == "SSL" and call.principal == ANONYMOUS)
    if is_anonymous or call.connection.is_token_authenticated:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.NONE


def token_secret(config: BrokerConfig) -> str:
    """Returns `delegation.token.secret.key`; empty without one."""
    password = config.get("delegation.token.secret.key")
    return password.value if isinstance(password, Password) else ""
