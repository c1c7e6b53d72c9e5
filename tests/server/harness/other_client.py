"""The client of a request that another node forwards."""

from __future__ import annotations

from typing import NamedTuple


class OtherClient(NamedTuple):
    """A `ClientIdentity`."""

    principal: str
    client_host: str
    is_token_authenticated: bool = False
