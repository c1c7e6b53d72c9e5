"""A SASL mechanism on the server's side, and the identity that it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

#: The key that names the class by which a mechanism checks credentials.
HANDLER: Final = "sasl.server.callback.handler.class"


class Identity(NamedTuple):
    """The client that an exchange has authenticated."""

    #: The authorization id: the name of the principal, before rules are applied to it.
    name: str
    #: When the credential ends, in milliseconds since 1970; None if it does not.
    expires_ms: int | None = None
    #: Whether it came with a delegation token (KIP-48).
    is_token: bool = False
    #: The name that was authenticated, where rules have made another of it.
    authorization_id: str = ""


class SaslServer(Protocol):
    """One exchange.

    A mechanism gets the client's tokens and returns its own, until it is complete or raises. It has no sockets; clock
    and users come in as arguments.
    """

    #: None until the exchange is complete.
    identity: Identity | None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Returns the response to a token of the client. Raises AuthenticationFailed."""


#: Begins an exchange.
Mechanism = Callable[[], SaslServer]
