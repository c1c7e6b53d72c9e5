"""The parts that the handlers of delegation tokens share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.configs import Password

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..network.call import Call

_ANONYMOUS = "User:ANONYMOUS"


def may_ask_for_tokens(config: BrokerConfig, call: Call) -> bool:
    """Returns whether the client is authenticated, and not by a token itself."""
    protocol = config.listeners.protocols.get(call.listener, "PLAINTEXT")
    if call.connection.is_token_authenticated or protocol == "PLAINTEXT":
        return False
    return not (protocol == "SSL" and call.principal == _ANONYMOUS)


def token_secret(config: BrokerConfig) -> str:
    """Returns `delegation.token.secret.key`; empty without one."""
    password = config.get("delegation.token.secret.key")
    return password.value if isinstance(password, Password) else ""
