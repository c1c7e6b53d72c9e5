"""Attacks of clients that have not logged in: each is a function of a connection that tries to log in or to do harm.

After each attack the client must still be unauthenticated: see `is_outside`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import struct
import time
from collections.abc import Callable
from typing import Any

import jwt
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest

from compat_tests.wire import ConnectionClosed, WireClient
from tests.security.exchanges import ScramClient, plain
from tests.security.issuer import Issuer

USER, PASSWORD = "sam", "sam-secret-2b71"
RIGHT = plain(USER, PASSWORD)
ISSUED, STRANGER = Issuer(), Issuer()
_GIANT = 2**31 - 1
#: SaslAuthenticate v0: api key, version, correlation id, client id; then a token with a length of 100, but five bytes.
_TRUNCATED = struct.pack(">hhih", 36, 0, 1, 1) + b"c" + struct.pack(">i", 100) + b"short"

Attack = Callable[[WireClient], None]


def is_outside(client: WireClient) -> bool:
    """Returns whether the broker rejects a request that needs a login."""
    try:
        response = client.call(ListGroupsRequest(), 3)
    except (ConnectionClosed, TimeoutError):
        return True
    return int(response.error_code) == ErrorCode.ILLEGAL_SASL_STATE


def handshake(client: WireClient, mechanism: str = "PLAIN") -> Any:
    return client.call(SaslHandshakeRequest(mechanism=mechanism), 1)


def authenticate(client: WireClient, token: bytes) -> Any:
    return client.call(SaslAuthenticateRequest(auth_bytes=token), 2)


# ---- frames


def giant_frame_first(client: WireClient) -> None:
    client.send_bytes(struct.pack(">i", _GIANT))


def giant_token(client: WireClient) -> None:
    handshake(client)
    client.send_bytes(struct.pack(">i", _GIANT) + bytes(1000))


def negative_size(client: WireClient) -> None:
    handshake(client)
    client.send_bytes(struct.pack(">i", -1))


def truncated_token(client: WireClient) -> None:
    handshake(client)
    client.send_bytes(struct.pack(">i", len(_TRUNCATED)) + _TRUNCATED)


# ---- order


def request_before_authentication(client: WireClient) -> None:
    client.call(MetadataRequest(topics=None), 9)


def request_instead_of_authentication(client: WireClient) -> None:
    handshake(client)
    client.call(MetadataRequest(topics=None), 9)


def mechanism_switched_before_a_token(client: WireClient) -> None:
    handshake(client, "SCRAM-SHA-256")
    handshake(client, "PLAIN")
    authenticate(client, RIGHT)


def mechanism_switched_midway(client: WireClient) -> None:
    handshake(client, "SCRAM-SHA-256")
    authenticate(client, ScramClient("sha256", USER, PASSWORD).first)
    handshake(client, "PLAIN")
    authenticate(client, RIGHT)


def token_of_another_mechanism(client: WireClient) -> None:
    handshake(client, "SCRAM-SHA-256")
    authenticate(client, RIGHT)


# ---- SCRAM


class Replay:
    """The recorded first and last messages of another client's login."""

    def __init__(self) -> None:
        self.first = self.final = b""

    def overhear(self, client: WireClient) -> None:
        exchange = ScramClient("sha256", USER, PASSWORD)
        handshake(client, "SCRAM-SHA-256")
        self.first = exchange.first
        self.final = exchange.final(authenticate(client, self.first).auth_bytes)
        assert authenticate(client, self.final).error_code == 0

    def __call__(self, client: WireClient) -> None:
        handshake(client, "SCRAM-SHA-256")
        assert authenticate(client, self.first).error_code == 0
        assert authenticate(client, self.final).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


OVERHEARD = Replay()


def scram_without_its_first_message(client: WireClient) -> None:
    handshake(client, "SCRAM-SHA-256")
    assert authenticate(client, OVERHEARD.final).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


# ---- tokens


def presenting(token: Callable[[], str]) -> Attack:
    def attack(client: WireClient) -> None:
        assert handshake(client, "OAUTHBEARER").error_code == 0
        reported = authenticate(client, f"n,,\x01auth=Bearer {token()}\x01\x01".encode())
        assert reported.error_code or json.loads(reported.auth_bytes)["status"] == "invalid_token"
        authenticate(client, b"\x01")  # answers the error challenge; the failure follows (RFC 7628, section 3.2.3)

    return attack


def _without_signature() -> str:
    parts = ({"alg": "none", "typ": "JWT"}, ISSUED.claims(time.time()))
    return ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts) + "."


def _signed_with_the_public_key() -> str:
    """Returns a token with an HMAC whose key is the public key: it passes a server that trusts the token's algorithm."""
    public = ISSUED.key_set()["keys"][0]["n"]
    return jwt.encode(ISSUED.claims(time.time()), public, "HS256", {"kid": ISSUED.key_id})


LOGIN_ATTACKS: dict[str, Attack] = {
    "a giant frame first": giant_frame_first,
    "a giant token": giant_token,
    "a negative size": negative_size,
    "a truncated token": truncated_token,
    "a request before authentication": request_before_authentication,
    "a request instead of authentication": request_instead_of_authentication,
    "mechanism switched before a token": mechanism_switched_before_a_token,
    "mechanism switched midway": mechanism_switched_midway,
    "a token of another mechanism": token_of_another_mechanism,
    "a replayed SCRAM login": OVERHEARD,
    "the last message of SCRAM alone": scram_without_its_first_message,
}
TOKEN_ATTACKS: dict[str, Attack] = {
    "alg none": presenting(_without_signature),
    "another key": presenting(lambda: STRANGER.token(time.time())),
    "HMAC with the public key": presenting(_signed_with_the_public_key),
    "wrong audience": presenting(lambda: ISSUED.token(time.time(), aud="somebody else")),
    "wrong issuer": presenting(lambda: ISSUED.token(time.time(), iss="https://another.test")),
    "expired": presenting(lambda: ISSUED.token(time.time() - 3600)),
}


def attempt(address: str, attack: Attack, source: str) -> bool:
    """Runs an attack from `source`. Returns whether the client is still unauthenticated."""
    with WireClient(address, timeout=60, source=source) as client:
        with contextlib.suppress(ConnectionClosed):
            attack(client)
        return is_outside(client)
