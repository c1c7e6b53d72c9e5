"""The client's part of SASL: the exchanges PLAIN, SCRAM and OAUTHBEARER. Kerberos is in `kerberos.py`."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..metadata.credentials import (
    BY_NAME,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    client_key,
    hash_of,
    hmac_of,
    salted_password,
    server_key,
)
from .scram_messages import InvalidScramMessage, encoded, parse_server_first, sasl_name, server_signature_of

if TYPE_CHECKING:
    from ..metadata.credentials import ScramMechanism
    from .scram_messages import ServerFirst

_NONCE_BYTES = 24
_GS2_HEADER = b"n,,"
#: Salted passwords that are kept: one for each user that this node logs in as, while its credential is the same.
_KEPT_PASSWORDS = 8

#: The acknowledgement of an error, after which the server repeats it (RFC 7628, section 3.2.3).
_ERROR_SEEN = b"\x01"


class AuthenticationFailed(Exception):
    """The exchange has failed. `reason` is for the log and never has a secret.

    `shown` is what the client gets; without it, the client gets a sentence that is the same for every reason.
    """

    def __init__(self, reason: str, shown: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.shown = shown


class SaslClient(Protocol):
    """One exchange of the client."""

    #: Whether the client has sent all, and has verified the server.
    is_complete: bool

    def first(self) -> bytes:
        """Returns the first token."""

    def respond(self, challenge: bytes) -> bytes | None:
        """Returns the response to a token of the server; None when nothing is left to send. Raises AuthenticationFailed."""


class Login(Protocol):
    """How this process logs in on a listener."""

    @property
    def mechanism(self) -> str: ...

    @property
    def username(self) -> str:
        """The user that logs in, for the log."""

    @property
    def may_wait(self) -> bool:
        """Whether the methods of its clients may wait for a file or a server: they are called on a thread."""

    def client(self, host: str) -> SaslClient:
        """Begins an exchange with a node on that host."""


class PasswordLogin(NamedTuple):
    """A login with a password. `mechanism`: PLAIN, or one of SCRAM."""

    mechanism: str
    username: str
    password: str
    may_wait: bool = False

    def client(self, host: str) -> SaslClient:
        return PlainClient(self) if self.mechanism == "PLAIN" else ScramClient(self)

    def __repr__(self) -> str:
        return f"PasswordLogin({self.mechanism}, {self.username}, [hidden])"


class PlainClient:
    def __init__(self, login: PasswordLogin) -> None:
        self.is_complete = False
        self._login = login

    def first(self) -> bytes:
        return b"\0".join((b"", self._login.username.encode(), self._login.password.encode()))

    def respond(self, challenge: bytes) -> bytes | None:
        self.is_complete = True
        return None


class ScramClient:
    def __init__(self, login: PasswordLogin) -> None:
        self.is_complete = False
        self._mechanism = BY_NAME[login.mechanism]
        self._password = login.password
        self._nonce = secrets.token_urlsafe(_NONCE_BYTES)
        self._bare = f"n={sasl_name(login.username)},r={self._nonce}".encode()
        #: The last message that the server must send; None before its first message.
        self._expected: bytes | None = None

    def first(self) -> bytes:
        return _GS2_HEADER + self._bare

    def respond(self, challenge: bytes) -> bytes | None:
        try:
            if self._expected is None:
                return self._proof(challenge, parse_server_first(challenge))
            is_right = hmac.compare_digest(server_signature_of(challenge), self._expected)
        except InvalidScramMessage as invalid:
            raise AuthenticationFailed(str(invalid)) from None
        if not is_right:
            raise AuthenticationFailed("the server's signature is wrong: the server does not have the password")
        self.is_complete = True
        return None

    def _proof(self, challenge: bytes, server: ServerFirst) -> bytes:
        if not server.nonce.startswith(self._nonce) or len(server.nonce) == len(self._nonce):
            raise AuthenticationFailed("the server's nonce does not begin with the client's")
        if not MIN_ITERATIONS <= server.iterations <= MAX_ITERATIONS:
            raise AuthenticationFailed(f"the server asks for {server.iterations} iterations")
        mechanism = self._mechanism
        salted = _salted(mechanism, self._password, server.salt, server.iterations)
        without_proof = f"c={encoded(_GS2_HEADER)},r={server.nonce}".encode()
        signed = b",".join((self._bare, challenge, without_proof))
        key = client_key(mechanism, salted)
        signature = hmac_of(mechanism, hash_of(mechanism, key), signed)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        self._expected = hmac_of(mechanism, server_key(mechanism, salted), signed)
        return without_proof + b",p=" + encoded(proof).encode()


@lru_cache(_KEPT_PASSWORDS)
def _salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 takes some ms, so a node that connects often computes it once."""
    return salted_password(mechanism, password, salt, iterations)


class OAuthClient:
    """One exchange of the client, see SaslClient."""

    def __init__(self, token: Callable[[], str], extensions: Mapping[str, str]) -> None:
        self.is_complete = False
        self._token = token
        self._extensions = extensions

    def first(self) -> bytes:
        pairs = {"auth": f"Bearer {self._token()}", **self._extensions}
        return "\x01".join(("n,,", *(f"{key}={value}" for key, value in pairs.items()), "", "")).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if challenge:  # an error, which the server repeats once it is acknowledged (RFC 7628, section 3.2.3)
            return _ERROR_SEEN
        self.is_complete = True
        return None
