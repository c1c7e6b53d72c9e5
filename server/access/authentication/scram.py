"""The server's part of SASL SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).

The server never gets the password: the client proves that it has ClientKey, whose hash is StoredKey. An unknown
user gets a salt all the same, the same one each time, and fails where a wrong password fails. So a client cannot
find out which users exist. (Apache Kafka ends the exchange of an unknown user one message earlier.) The server's
part of an exchange costs 40 us: PBKDF2 is the client's part.

With the extension `tokenauth=true` the user is the id of a delegation token, and the password its HMAC (KIP-48).
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ....client.sasl import AuthenticationFailed
from ....client.scram_messages import (
    ClientFirst,
    InvalidScramMessage,
    encoded,
    parse_client_final,
    parse_client_first,
    server_first,
)
from ....metadata.credentials import MIN_ITERATIONS, SALT_BITS, ScramMechanism, hash_of, hmac_of, salt_text
from ....metadata.image import ScramCredential
from .mechanism import Identity
from .token_users import TokenCredential

#: From it come the salts of users that do not exist.
_SECRET = secrets.token_bytes(32)
_NONCE_BYTES = 24
#: Longer names are not cached: clients choose them, and they would fill the memory.
_LONGEST_KEPT_NAME = 200
_TOKEN_EXTENSION = "tokenauth"


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
        self._response = b""
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
        self._response = server_first(self._nonce, self._credential.salt, self._credential.iterations)
        return self._response

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
        signed = b",".join((first.bare, self._response, final.without_proof))
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
