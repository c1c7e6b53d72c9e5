"""The server's part of SASL SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).

The server never gets the password: the client proves that it has ClientKey, whose hash is StoredKey. An unknown
user gets a salt all the same, the same one each time, and fails where a wrong password fails. So a client cannot
find out which users exist. (Apache Kafka ends the exchange of an unknown user one message earlier.) The server's
part of an exchange costs 40 us: PBKDF2 is the client's part.

With the extension `tokenauth=true` the user is the id of a delegation token, and the password its HMAC (KIP-48).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ....metadata.credentials import (
    MIN_ITERATIONS,
    SALT_BITS,
    ScramMechanism,
    credential_of,
    hash_of,
    hmac_of,
    salt_text,
    salted_password,
    token_hmac,
)
from ....metadata.image import DelegationTokenImage, ScramCredential
from .sasl import AuthenticationFailed, Identity

# The messages of SCRAM (RFC 5802, section 7): parsed and written.
#
# As Kafka's, they have no channel binding, and extensions are kept but mean nothing, except for `tokenauth`. The bytes
# that are signed are those that the client sent.


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


#: From it come the salts of users that do not exist.
_SECRET = secrets.token_bytes(32)
_NONCE_BYTES = 24
#: Longer names are not cached: clients choose them, and they would fill the memory.
_LONGEST_KEPT_NAME = 200
_TOKEN_EXTENSION = "tokenauth"


class TokenCredential(NamedTuple):
    """A delegation token, as the exchange needs it."""

    owner: str
    expires_ms: int
    credential: ScramCredential


class ScramUsers(NamedTuple):
    """Finds credentials: of a user, and of a delegation token by its id."""

    credential: Callable[[str, ScramMechanism], ScramCredential | None]
    token: Callable[[str, ScramMechanism], TokenCredential | None]


class ScramServer:
    """One exchange: two messages of the client."""

    def __init__(self, mechanism: ScramMechanism, users: ScramUsers) -> None:
        self.identity: Identity | None = None
        self._mechanism = mechanism
        self._users = users
        self._first: ClientFirst | None = None
        self._answer = b""
        self._nonce = ""
        self._credential: ScramCredential
        #: The client's identity if the proof is right; None for an unknown user.
        self._claimed: Identity | None = None
        self._is_over = False

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        if self._is_over:
            raise AuthenticationFailed("a message after the end of a SCRAM exchange")
        try:
            if self._first is None:
                return self._begin(parse_client_first(token), now_ms)
            self._is_over = True
            return self._finish(self._first, token)
        except InvalidScramMessage as invalid:
            self._is_over = True
            raise AuthenticationFailed(str(invalid)) from None

    def _begin(self, first: ClientFirst, now_ms: int) -> bytes:
        if first.authorization_id not in ("", first.username):
            words = "Authentication failed: Client requested an authorization id that is different from username"
            raise AuthenticationFailed(words, words)
        self._first = first
        self._claimed, self._credential = self._find(first, now_ms)
        self._nonce = first.nonce + secrets.token_urlsafe(_NONCE_BYTES)
        self._answer = server_first(self._nonce, self._credential.salt, self._credential.iterations)
        return self._answer

    def _find(self, first: ClientFirst, now_ms: int) -> tuple[Identity | None, ScramCredential]:
        name = first.username
        # Known users need no such credential. It is computed for them too, so that both cost the same.
        nobody = (_kept_credential if len(name) <= _LONGEST_KEPT_NAME else _credential_of_nobody)(name, self._mechanism)
        if first.extensions.get(_TOKEN_EXTENSION, "").lower() == "true":
            token = self._users.token(name, self._mechanism)
            if token is not None and token.expires_ms > now_ms:
                return Identity(token.owner, token.expires_ms, is_token=True), token.credential
        else:
            credential = self._users.credential(name, self._mechanism)
            if credential is not None and credential.iterations >= MIN_ITERATIONS:
                return Identity(name), credential
        return None, nobody

    def _finish(self, first: ClientFirst, token: bytes) -> bytes:
        final = parse_client_final(token)
        if not hmac.compare_digest(final.nonce, self._nonce):
            raise AuthenticationFailed("the final message has the nonce of another exchange")
        if final.channel_binding != first.gs2_header:  # RFC 5802, section 5.1
            raise AuthenticationFailed("the channel binding of the final message is not the GS2 header of the first")
        signed = b",".join((first.bare, self._answer, final.without_proof))
        stored_key = self._credential.stored_key
        signature = hmac_of(self._mechanism, stored_key, signed)
        if len(final.proof) != len(signature):
            raise AuthenticationFailed("the length of the proof is wrong for the mechanism")
        client_key = (int.from_bytes(final.proof) ^ int.from_bytes(signature)).to_bytes(len(signature))
        is_right = hmac.compare_digest(hash_of(self._mechanism, client_key), stored_key)
        server_signature = hmac_of(self._mechanism, self._credential.server_key, signed)
        if not is_right or self._claimed is None:
            raise AuthenticationFailed("an unknown user or a wrong password")
        self.identity = self._claimed
        return f"v={encoded(server_signature)}".encode()


def _credential_of_nobody(name: str, mechanism: ScramMechanism) -> ScramCredential:
    """The same salt for a name each time, in the form of those that Kafka's tools draw; keys that no client can have."""
    seed = hmac_of(mechanism, _SECRET, name.encode())
    salt = salt_text(int.from_bytes(seed) >> (8 * len(seed) - SALT_BITS))
    return ScramCredential(salt, hmac_of(mechanism, _SECRET, seed), hmac_of(mechanism, seed, seed), MIN_ITERATIONS)


#: Caches the last names, of known and unknown users alike: the time of a login reveals nothing about the user.
_kept_credential = lru_cache(maxsize=1024)(_credential_of_nobody)


def scram_mechanism(mechanism: ScramMechanism, users: ScramUsers) -> Callable[[], ScramServer]:
    return lambda: ScramServer(mechanism, users)


# The SCRAM credentials of delegation tokens: user is the token's id, password its HMAC in base64 (KIP-48).
#
# A credential is made when a client first logs in with its token, and kept: PBKDF2 takes some ms. Ids that are no
# token's cost nothing.


#: Credentials that are kept, of 300 bytes each.
MOST_KEPT = 10_000


class TokenUsers:
    """The credentials of the tokens under one secret."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self._kept: OrderedDict[tuple[str, str], ScramCredential] = OrderedDict()

    def credential(self, token_id: str, token: DelegationTokenImage, mechanism: ScramMechanism) -> TokenCredential:
        key = (token_id, mechanism.name)
        found = self._kept.get(key)
        if found is None:
            password = encoded(token_hmac(self.secret, token_id))
            salt = salt_text(secrets.randbits(SALT_BITS))
            salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
            found = self._kept[key] = credential_of(mechanism, salted, salt, MIN_ITERATIONS)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        owner = token.owner.partition(":")[2]
        return TokenCredential(owner, min(token.expiration_timestamp, token.max_timestamp), found)
