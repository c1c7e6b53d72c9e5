"""SCRAM credentials (RFC 5802) as the metadata log keeps them (KIP-554, KIP-900), and the keys that they are made of.

A credential holds no password: StoredKey verifies the client's proof, ServerKey signs the server's response. Both come
from the salted password, which is PBKDF2 of the password. As Kafka's, a password is its UTF-8 bytes; SASLprep is not
applied.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from .image import ScramCredential

_HASHES = {"sha256": hashlib.sha256, "sha512": hashlib.sha512}

#: Limits for both mechanisms. The maximum costs a client 10 ms of PBKDF2.
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384

#: Salts are numbers of so many bits, drawn at random and written in base 36, as those of Kafka's tools.
SALT_BITS = 130
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramMechanism(NamedTuple):
    """`code` is the number of the mechanism in requests and records."""

    name: str
    code: int
    #: As `hashlib` names it.
    digest: str


SCRAM_SHA_256 = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512 = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
BY_CODE = {mechanism.code: mechanism for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)}
BY_NAME = {mechanism.name: mechanism for mechanism in BY_CODE.values()}


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
