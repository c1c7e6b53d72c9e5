"""SASL exchanges of a client, computed here and not by the code under test."""

from __future__ import annotations

import base64
import hashlib
import hmac

from odradek.metadata.credentials import SCRAM_SHA_256, SCRAM_SHA_512, ScramMechanism, credential_of, salted_password
from odradek.metadata.image import ScramCredential
from odradek.server.access.authentication.authentication import Settings
from odradek.server.access.authentication.plain import password_check, plain_mechanism
from odradek.server.access.authentication.scram import ScramUsers, scram_mechanism
from odradek.server.access.authentication.token_users import TokenCredential

SALT = b"salt of the test"
NONCE = "fyko+d2lbbFgONRv9qkxdawL"


def credential(mechanism: ScramMechanism, password: str, iterations: int = 4096) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, password, SALT, iterations), SALT, iterations)


USERS = {("bob", mechanism.code): credential(mechanism, "pencil") for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)}
TOKENS = {"token-1": TokenCredential("carol", 50_000, credential(SCRAM_SHA_256, "hmac of the token"))}
SCRAM_USERS = ScramUsers(
    lambda name, mechanism: USERS.get((name, mechanism.code)), lambda name, mechanism: TOKENS.get(name)
)


def settings(**max_reauth_ms: int) -> Settings:
    """A listener with PLAIN (alice) and both SCRAM mechanisms (bob)."""
    return Settings(
        {
            "PLAIN": plain_mechanism(password_check({"alice": "alice-secret"})),
            "SCRAM-SHA-256": scram_mechanism(SCRAM_SHA_256, SCRAM_USERS),
            "SCRAM-SHA-512": scram_mechanism(SCRAM_SHA_512, SCRAM_USERS),
        },
        {name.replace("_", "-"): value for name, value in max_reauth_ms.items()},
    )


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    return b"\0".join(text.encode() for text in (authorization_id, user, password))


class ScramClient:
    """The client's side of SCRAM (RFC 5802), without the code under test."""

    def __init__(self, digest: str, user: str, password: str, extensions: str = "", header: str = "n,,") -> None:
        self.digest, self.password, self.header = digest, password, header
        self.bare = f"n={user},r={NONCE}{extensions}"
        self.server_signature = b""

    @property
    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def final(self, challenge: bytes, nonce: str | None = None) -> bytes:
        parts = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac(self.digest, self.password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
        client_key = hmac.digest(salted, b"Client Key", self.digest)
        binding = base64.b64encode(self.header.encode()).decode()
        without_proof = f"c={binding},r={parts['r'] if nonce is None else nonce}"
        signed = f"{self.bare},{challenge.decode()},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(self.digest, client_key).digest(), signed, self.digest)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
        self.server_signature = hmac.digest(hmac.digest(salted, b"Server Key", self.digest), signed, self.digest)
        return f"{without_proof},p={proof}".encode()
