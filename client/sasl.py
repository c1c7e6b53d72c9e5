"""The client's part of SASL: the exchanges PLAIN, SCRAM and OAUTHBEARER, and the login on a connection.

- `parse_client_first` to `sasl_name`: the messages of SCRAM, which servers read and write with the same functions.
- `SaslClient`: one exchange of a mechanism. Kerberos is in `kerberos.py`.
- `Login`: how this process logs in on a listener.
- `PeerLogin`: the login of this process on a connection that it has opened.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

from ..metadata.credentials import (
    BY_NAME,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    client_key,
    hash_of,
    hmac_of,
    salted_password,
    server_key,
)
from ..protocol.errors import ErrorCode
from ..protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ..protocol.schema import Message, ResponseCallback
from .shown_text import shown_reason

# ---- messages of SCRAM (RFC 5802, section 7)
#
# As Kafka's, they have no channel binding, and extensions are kept but mean nothing, except for `tokenauth`. The bytes that
# are signed are those that the client sent.

_PRINTABLE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_SASL_NAME = re.compile(r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+")
_VALUE = re.compile(r"[\x01-\x2b\x2d-\x7f]+")
_ATTRIBUTE = re.compile(r"[A-Za-z]+")
#: Clients send less than 1 KiB; a longer message of many extensions would hold the loop.
MOST_MESSAGE_BYTES = 16 * 1024
#: `int` takes longer for longer numbers; iterations have five digits.
_MOST_DIGITS = 9


class InvalidScramMessage(Exception):
    """The bytes are not the message; the words show none of them."""


class ClientFirst(NamedTuple):
    """`bare` is the message without its GS2 header."""

    bare: bytes
    gs2_header: bytes
    username: str
    authorization_id: str
    nonce: str
    #: The extensions after the nonce.
    extensions: dict[str, str]


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    without_proof: bytes
    channel_binding: bytes
    nonce: str
    proof: bytes


def parse_client_first(token: bytes) -> ClientFirst:
    """Raises InvalidScramMessage."""
    text = _text(token)
    parts = text.split(",")
    if parts[0] != "n" or len(parts) < 4:
        raise InvalidScramMessage("a client's first message begins with n,, or n,a=")
    header = parts[1]
    authorization_id = _username(_attribute("a", header)) if header else ""
    rest = parts[2:]
    if rest[0].startswith("m="):
        _attribute("m", rest[0])
        rest = rest[1:]
    if len(rest) < 2:
        raise InvalidScramMessage("a client's first message has no nonce")
    username, nonce = _username(_attribute("n", rest[0])), _nonce(rest[1])
    start = len(f"n,{header},".encode())
    return ClientFirst(token[start:], token[:start], username, authorization_id, nonce, _extensions(rest[2:]))


def parse_client_final(token: bytes) -> ClientFinal:
    """Raises InvalidScramMessage."""
    parts = _text(token).split(",")
    if len(parts) < 3:
        raise InvalidScramMessage("a client's final message has a channel binding, a nonce and a proof")
    _extensions(parts[2:-1])
    channel_binding, proof = _base64(_attribute("c", parts[0])), _base64(_attribute("p", parts[-1]))
    without_proof = token[: len(token) - len(parts[-1].encode()) - 1]
    return ClientFinal(without_proof, channel_binding, _nonce(parts[1]), proof)


def parse_server_first(token: bytes) -> ServerFirst:
    """Raises InvalidScramMessage."""
    parts = _text(token).split(",")
    if parts[0].startswith("m="):
        parts = parts[1:]
    if len(parts) < 3:
        raise InvalidScramMessage("a server's first message has a nonce, a salt and a number of iterations")
    digits = _attribute("i", parts[2])
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        raise InvalidScramMessage("the number of iterations is not a number")
    return ServerFirst(_nonce(parts[0]), _base64(_attribute("s", parts[1])), int(digits))


def server_signature_of(token: bytes) -> bytes:
    """Returns the signature in a server's final message. Raises InvalidScramMessage, also for an error (`e=`)."""
    return _base64(_attribute("v", _text(token).split(",")[0]))


def server_first(nonce: str, salt: bytes, iterations: int) -> bytes:
    return f"r={nonce},s={encoded(salt)},i={iterations}".encode()


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sasl_name(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _text(token: bytes) -> str:
    if len(token) > MOST_MESSAGE_BYTES:
        raise InvalidScramMessage(f"a SCRAM message of {len(token)} bytes; the limit is {MOST_MESSAGE_BYTES}")
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise InvalidScramMessage("a SCRAM message is not UTF-8") from None


def _attribute(name: str, text: str) -> str:
    if not text.startswith(f"{name}="):
        raise InvalidScramMessage(f"the attribute {name} is missing in a SCRAM message")
    return text[2:]


def _username(text: str) -> str:
    if not _SASL_NAME.fullmatch(text):
        raise InvalidScramMessage("a name in a SCRAM message has invalid characters")
    return text.replace("=2C", ",").replace("=3D", "=")


def _nonce(text: str) -> str:
    nonce = _attribute("r", text)
    if not _PRINTABLE.fullmatch(nonce):
        raise InvalidScramMessage("a nonce is not printable")
    return nonce


def _extensions(parts: list[str]) -> dict[str, str]:
    found = {}
    for part in parts:
        name, _, value = part.partition("=")
        if not (_ATTRIBUTE.fullmatch(name) and _VALUE.fullmatch(value)):
            raise InvalidScramMessage("an extension of a SCRAM message is not NAME=VALUE")
        found[name] = value
    return found


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidScramMessage("an attribute of a SCRAM message is not base64") from None


# ---- exchanges

_NONCE_BYTES = 24
_GS2_HEADER = b"n,,"
#: Salted passwords that are kept: one for each user that this node logs in as, while its credential is the same.
_KEPT_PASSWORDS = 8


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


@lru_cache(_KEPT_PASSWORDS)
def _salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 takes some ms, so a node that connects often computes it once."""
    return salted_password(mechanism, password, salt, iterations)


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


#: The acknowledgement of an error, after which the server repeats it (RFC 7628, section 3.2.3).
_ERROR_SEEN = b"\x01"


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


#: Mechanisms of PasswordLogin.
PASSWORD_MECHANISMS = ("PLAIN", *BY_NAME)


# ---- the login on a connection

#: The part of a session after which it is renewed. Kafka's clients draw one between 0.85 and 0.95.
RENEWED_AFTER = 0.85
#: SaslHandshake: tokens follow in SaslAuthenticate.
_HANDSHAKE_VERSION = 1


#: Sends a request of a version, or of the highest that both sides have; the reply gets the response.
SendSasl = Callable[[Message, ResponseCallback, int | None], None]


class PeerLogin:
    """The login of one connection. `done` is called after each success, `failed` with words for the log, `renew` when the
    session is to be renewed.

    A login is SaslHandshake, then SaslAuthenticate until it is done. A session with an end (KIP-368) is renewed
    before it: the owner of the connection is called in time.
    """

    def __init__(
        self,
        login: Login,
        host: str,
        send: SendSasl,
        done: Callable[[], None],
        failed: Callable[[str], None],
        renew: Callable[[], None],
    ) -> None:
        self._login = login
        self._host = host
        self._send = send
        self._done = done
        self._failed = failed
        self._renew = renew
        self._client: SaslClient
        self._timer: asyncio.TimerHandle | None = None
        self._lifetime_ms = 0
        self._is_stopped = False

    def begin(self) -> None:
        self._client = self._login.client(self._host)
        self._send(SaslHandshakeRequest(mechanism=self._login.mechanism), self._handshaken, _HANDSHAKE_VERSION)

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _handshaken(self, response: SaslHandshakeResponse | None) -> None:
        if response is None:
            self._failed("it does not support SaslHandshake")
            return
        if response.error_code != ErrorCode.NONE:
            offered = ", ".join(name[:40] for name in response.mechanisms[:10])
            self._failed(f"it does not offer {self._login.mechanism}, but {shown_reason(offered)}")
            return
        self._make_token(self._client.first)

    def _make_token(self, make: Callable[[], bytes | None]) -> None:
        """Makes the next token and sends it; on a thread where making it may wait."""
        if not self._login.may_wait:
            self._send_token(make)
            return
        made = asyncio.get_running_loop().run_in_executor(None, make)
        made.add_done_callback(self._was_made)

    def _was_made(self, made: asyncio.Future[bytes | None]) -> None:
        if not self._is_stopped and not made.cancelled():
            self._send_token(made.result)

    def _send_token(self, made: Callable[[], bytes | None]) -> None:
        try:
            token = made()
        except AuthenticationFailed as failed:
            self._failed(failed.reason)
            return
        if token is not None:
            self._send(SaslAuthenticateRequest(auth_bytes=token), self._answered, None)
            return
        if self._lifetime_ms > 0:
            after_s = self._lifetime_ms / 1000 * RENEWED_AFTER
            self._timer = asyncio.get_running_loop().call_later(after_s, self._renew)
        self._done()

    def _answered(self, response: SaslAuthenticateResponse | None) -> None:
        if response is None:
            self._failed("it does not support SaslAuthenticate")
            return
        if response.error_code != ErrorCode.NONE:
            words = shown_reason(response.error_message or ErrorCode(response.error_code).name)
            self._failed(f"it rejected the login of {self._login.username}: {words}")
            return
        self._lifetime_ms = response.session_lifetime_ms
        challenge = bytes(response.auth_bytes)
        self._make_token(lambda: self._client.respond(challenge))
