"""A request that the active controller is to decide, and the client whose request it is."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from ...protocol.schema import Request


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
