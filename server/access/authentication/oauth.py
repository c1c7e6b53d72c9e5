"""SASL OAUTHBEARER (RFC 7628, KIP-255): the client's token, checked by a validator.

The server answers a rejected token with a JSON error. The client acknowledges it with one byte, and the exchange fails,
as in Kafka. Extensions are read and have no effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from ....client.sasl import AuthenticationFailed
from ....client.scram_messages import SASL_NAME
from .mechanism import Identity
from .token_validator import TokenRejected, TokenValidator

_ACKNOWLEDGED = b"\x01"
_KEY = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_BEARER = re.compile(r"(?i:bearer) +([-_~+/.a-zA-Z0-9]+=*)")
#: Tokens have some 2 KiB; what is longer costs time to parse.
MOST_MESSAGE_BYTES = 64 * 1024


class OAuthBearerServer:
    """One exchange: a message of the client, and the acknowledgement of an error."""

    def __init__(self, validate: TokenValidator) -> None:
        self.identity: Identity | None = None
        self._validate = validate
        self._error: str | None = None
        self._reason = ""

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        if self._error is not None:
            if token == _ACKNOWLEDGED:
                raise AuthenticationFailed(f"a token is not valid: {self._reason}", self._error)
            raise AuthenticationFailed("the client continues after its token was rejected")
        authorization_id, bearer = _parsed(token)
        try:
            identity = self._validate(bearer, now_ms)
            if not isinstance(identity, Identity):
                raise TokenRejected("the validator returned no identity")
        except TokenRejected as rejected:
            error = {"status": rejected.status} | ({"scope": rejected.scope} if rejected.scope else {})
            self._reason, self._error = str(rejected), json.dumps(error, separators=(", ", ":"))
            return self._error.encode()
        if authorization_id not in ("", identity.name):
            shown = (
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different from "
                f"the token's principal name ({identity.name})"
            )
            raise AuthenticationFailed("it requests an authorization id that differs from its token's", shown)
        self.identity = identity
        return b""


def _parsed(message: bytes) -> tuple[str, str]:
    """Returns the authorization id and the bearer token of the client's message. Raises AuthenticationFailed."""
    if len(message) > MOST_MESSAGE_BYTES:
        raise AuthenticationFailed(f"an OAUTHBEARER message of {len(message)} bytes; the limit is {MOST_MESSAGE_BYTES}")
    header, *pairs = message.decode("utf-8", "replace").split("\x01")
    start, _, rest = header.partition(",")
    authorization_id = rest.removesuffix(",").removeprefix("a=")
    is_header = start == "n" and (rest == "," or (rest[:2] == "a=" and SASL_NAME.fullmatch(authorization_id)))
    if not is_header or rest[-1:] != "," or len(pairs) < 2 or pairs[-2:] != ["", ""]:
        raise AuthenticationFailed("the client's message is not an OAUTHBEARER message")
    properties = {}
    for pair in pairs[:-2]:
        key, _, value = pair.partition("=")
        if not (_KEY.fullmatch(key) and _VALUE.fullmatch(value)):
            raise AuthenticationFailed("a pair in the client's message is not KEY=VALUE")
        properties[key] = value
    bearer = _BEARER.fullmatch(properties.get("auth", ""))
    if bearer is None:
        raise AuthenticationFailed("the client's message has no bearer token")
    return authorization_id, bearer[1]


def oauthbearer_mechanism(validate: TokenValidator) -> Callable[[], OAuthBearerServer]:
    return lambda: OAuthBearerServer(validate)
