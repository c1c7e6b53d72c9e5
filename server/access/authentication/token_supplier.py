"""The interface of a supplier of a node's own OAuth tokens."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class TokenSupplier(Protocol):
    """Gets a token. A user's own class may be one (`python:package.module:Name` in `sasl.login.callback.handler.class`).
    It is called on a thread, so it may wait; what it raises is a failed login.
    """

    def __call__(self) -> str:
        """Returns a JSON web token that has not expired."""
