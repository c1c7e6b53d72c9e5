"""SASL PLAIN (RFC 4616), with the users that `sasl.jaas.config` names.

A token is authorization id, user and password, with a NUL between them. The errors are Kafka's, and are shown to the
client. A password is compared by its HMAC under a key of this process, so a comparison takes the same time whether the
user exists, and however much of the password is right.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from ....client.sasl import AuthenticationFailed
from .mechanism import Identity

_KEY = secrets.token_bytes(32)
_UNKNOWN_USER = secrets.token_bytes(32)


@runtime_checkable
class PasswordCheck(Protocol):
    """Decides whether a password is that of a user. A user's own class may be one (`python:package.module:Name` in
    `sasl.server.callback.handler.class`). It runs in the broker's event loop: it must not wait for anything.
    """

    def __call__(self, username: str, password: str) -> bool:
        """Returns True if it is."""


def _digest(text: str) -> bytes:
    return hmac.digest(_KEY, text.encode("utf-8", "surrogatepass"), "sha256")


def password_check(users: dict[str, str]) -> PasswordCheck:
    """Returns the check for users whose passwords are known."""
    digests = {name: _digest(password) for name, password in users.items()}

    def check(username: str, password: str) -> bool:
        return hmac.compare_digest(digests.get(username, _UNKNOWN_USER), _digest(password))

    return check


class PlainServer:
    """One exchange: a single token."""

    def __init__(self, check: PasswordCheck) -> None:
        self.identity: Identity | None = None
        self._check = check

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        parts = token.split(b"\0", 3)
        if len(parts) != 3:
            raise _shown(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, username, password = (part.decode("utf-8", "replace") for part in parts)
        if not username:
            raise _shown("Authentication failed: username not specified")
        if not password:
            raise _shown("Authentication failed: password not specified")
        if not self._is_right(username, password):
            raise _shown("Authentication failed: Invalid username or password")
        if authorization_id not in ("", username):
            raise _shown("Authentication failed: Client requested an authorization id that is different from username")
        self.identity = Identity(username)
        return b""

    def _is_right(self, username: str, password: str) -> bool:
        try:
            return self._check(username, password) is True
        except Exception as error:  # of a user's own class; its words may have the password
            shown = "Authentication failed: credentials for user could not be verified"
            raise AuthenticationFailed(f"the password check failed: {type(error).__name__}", shown) from None


def _shown(words: str) -> AuthenticationFailed:
    return AuthenticationFailed(words, words)


def plain_mechanism(check: PasswordCheck) -> Callable[[], PlainServer]:
    return lambda: PlainServer(check)
