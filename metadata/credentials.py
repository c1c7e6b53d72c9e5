"""SCRAM credentials (RFC 5802) as the metadata log keeps them (KIP-554, KIP-900), and the keys that they are made of.

A credential holds no password: StoredKey verifies the client's proof, ServerKey signs the server's response. Both come
from the salted password, which is PBKDF2 of the password. As Kafka's, a password is its UTF-8 bytes; SASLprep is not
applied.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..protocol.internal.cluster_metadata import DelegationTokenRecord
from .image import DelegationTokenImage, ScramCredential


class ScramMechanism(NamedTuple):
    """`code` is the number of the mechanism in requests and records."""

    name: str
    code: int
    #: As `hashlib` names it.
    digest: str


SCRAM_SHA_256 = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512 = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
_HASHES = {"sha256": hashlib.sha256, "sha512": hashlib.sha512}
BY_CODE = {mechanism.code: mechanism for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)}
BY_NAME = {mechanism.name: mechanism for mechanism in BY_CODE.values()}

#: Limits for both mechanisms. The maximum costs a client 10 ms of PBKDF2.
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384

#: Salts are numbers of so many bits, drawn at random and written in base 36, as those of Kafka's tools.
SALT_BITS = 130
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def salt_text(number: int) -> bytes:
    digits = []
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits or "0")).encode()


def hmac_of(mechanism: ScramMechanism, key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, mechanism.digest)


def hash_of(mechanism: ScramMechanism, text: bytes) -> bytes:
    return _HASHES[mechanism.digest](text).digest()


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac_of(mechanism, salted, b"Client Key")


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac_of(mechanism, salted, b"Server Key")


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Returns the credential of a salted password."""
    stored_key = hash_of(mechanism, client_key(mechanism, salted))
    return ScramCredential(salt, stored_key, server_key(mechanism, salted), iterations)


# Delegation tokens (KIP-48, KIP-900): the password of a token, and the tokens that have one password.
#
# The password is the HMAC of the token's id under `delegation.token.secret.key`, which all nodes of a cluster share.
# It is never stored. In SASL it is written in base64.


#: The size of one token, in bytes of UTF-8 of its principals. A record of the metadata log is part of each snapshot, and
#: of the memory of each node.
MAX_TOKEN_BYTES = 1 << 20
#: The size of all tokens of one owner: 50,000 without renewers. A user without rights may create tokens for itself.
MAX_TOKEN_BYTES_PER_OWNER = 16 << 20
#: The size of a token besides its principals.
_TOKEN_BYTES = 100


def token_bytes(principals: Iterable[str]) -> int:
    """Returns the size of a token with these principals: owner, requester and renewers."""
    return _TOKEN_BYTES + sum(len(name) if name.isascii() else len(name.encode()) for name in principals)


class TokenSizes:
    """The size of each owner's tokens."""

    def __init__(self, tokens: Iterable[DelegationTokenImage]) -> None:
        self._sizes: Counter[str] = Counter()
        for token in tokens:
            self.add(token)

    def of(self, owner: str) -> int:
        return self._sizes[owner]

    def add(self, token: DelegationTokenImage | DelegationTokenRecord) -> None:
        self._sizes[token.owner] += token_bytes((token.owner, token.requester, *token.renewers))

    def remove(self, token: DelegationTokenImage) -> None:
        self._sizes[token.owner] -= token_bytes((token.owner, token.requester, *token.renewers))
        if self._sizes[token.owner] <= 0:
            del self._sizes[token.owner]


def token_hmac(secret: str, token_id: str) -> bytes:
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def may_renew(token: DelegationTokenImage, principal: str) -> bool:
    return principal == token.owner or principal in token.renewers


def is_expired(token: DelegationTokenImage, now_ms: int) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


class TokenIds:
    """Finds a token by its HMAC. A token's HMAC is computed once, when the token is met first."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        self._seen: Mapping[str, DelegationTokenImage] | None = None

    def hmac_of(self, token_id: str) -> bytes:
        return token_hmac(self.secret, token_id)

    def find(self, tokens: Mapping[str, DelegationTokenImage], wanted: bytes) -> str | None:
        """Returns the id of the token among `tokens` that has this HMAC."""
        if tokens is not self._seen:
            self._seen = tokens
            for token_id in self._hmacs.keys() - set(tokens):
                del self._ids[self._hmacs.pop(token_id)]
            for token_id in tokens:
                if token_id not in self._hmacs:
                    made = self._hmacs[token_id] = self.hmac_of(token_id)
                    self._ids[made] = token_id
        return self._ids.get(wanted)
