"""A request that the active controller is to decide, the client whose request it is, and how others submit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypedDict, Unpack

from ...protocol.schema import Request, ResponseT


class ClientFields(TypedDict, total=False):
    """The client whose request it is, for the authorizer; empty for requests of this node."""

    principal: str
    #: As `Call.client_host`.
    client_host: str
    client_id: str | None
    #: Whether it has logged in with a delegation token (KIP-48).
    is_token_authenticated: bool


class Asked(NamedTuple):
    """A request that is to be decided, as requirements see it."""

    request: Request
    version: int


class Submit(Protocol):
    """Has the active controller decide a request. See QuorumDriver.submit."""

    def __call__(
        self,
        request: Request[ResponseT],
        version: int,
        reply: Callable[[ResponseT], None],
        **client: Unpack[ClientFields],
    ) -> None: ...
