"""The interface of a validator of OAuth tokens, and its rejection (KIP-255)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from .mechanism import Identity


class TokenRejected(Exception):
    """A token is not valid. The words are for the log, and have no part of the token but names of claims."""

    def __init__(self, words: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(words)
        self.status = status
        self.scope = scope


@runtime_checkable
class TokenValidator(Protocol):
    """Decides whether a token is valid. A user's own class may be one (`python:package.module:Name` in
    `sasl.server.callback.handler.class`). It runs in the broker's event loop: it must not wait for anything.
    """

    def __call__(self, token: str, now_ms: int) -> Identity:
        """Returns the identity that the token stands for. Raises TokenRejected."""
