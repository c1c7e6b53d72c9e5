"""OAUTHBEARER of this node at other nodes: its token, from a file or a token endpoint, and the client's part of SASL.

As Kafka's OAuthBearerLoginCallbackHandler takes them (KIP-768): `sasl.oauthbearer.token.endpoint.url` is the URL of
a file with the token, or of the endpoint that gives one for the client's credentials (RFC 6749, section 4.4), or
for an assertion (KIP-1139). A token is kept until a part of its life has passed; the login after that gets the next
one.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ....client.sasl import AuthenticationFailed, OAuthClient
from .oauth_claims import parts_of
from .oauth_issuer import read
from .token_supplier import TokenSupplier
from .token_validator import TokenRejected

if TYPE_CHECKING:
    from ....protocol.json_value import JsonValue

_CLIENT_CREDENTIALS = "client_credentials"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
Grant = Callable[[], tuple[dict[str, str], dict[str, str]]]


class RefreshTimes(NamedTuple):
    """sasl.login.refresh.* and sasl.login.retry.backoff.*; times in seconds."""

    factor: float
    jitter: float
    least_period_s: float
    buffer_s: float
    first_backoff_s: float
    most_backoff_s: float

    def refresh_s(self, begins_s: float, expires_s: float, now_s: float, share: float) -> float:
        """Returns when a token is replaced. `share`: of the jitter, from 0 to 1.

        As in Kafka, period and buffer are ignored where the token's life is too short.
        """
        at_s = begins_s + (expires_s - begins_s) * (self.factor + self.jitter * share)
        if self.least_period_s + self.buffer_s > expires_s - begins_s:
            return at_s
        return min(expires_s - self.buffer_s, max(now_s + self.least_period_s, at_s))


def client_credentials(client_id: str, secret: str, scope: str | None) -> Grant:
    """Returns the form and the headers of a request for a token, each time: here by id and secret of the client."""
    pair = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    return lambda: ({"grant_type": _CLIENT_CREDENTIALS, **_scoped(scope)}, {"Authorization": f"Basic {pair}"})


def client_assertion(client_id: str | None, assertion: Callable[[], str], scope: str | None) -> Grant:
    """Works as `client_credentials`, with an assertion in place of the secret (RFC 7523, section 2.2)."""

    def grant() -> tuple[dict[str, str], dict[str, str]]:
        proof = {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": assertion()}
        named = {"client_id": client_id} if client_id else {}
        return {**proof, "grant_type": _CLIENT_CREDENTIALS, **named, **_scoped(scope)}, {}

    return grant


def jwt_bearer(assertion: Callable[[], str], scope: str | None) -> Grant:
    """Works as `client_credentials`, for the subject of an assertion (RFC 7523, section 2.1)."""
    return lambda: ({"grant_type": _JWT_BEARER, "assertion": assertion(), **_scoped(scope)}, {})


def _scoped(scope: str | None) -> dict[str, str]:
    return {"scope": scope} if scope else {}


class TokenEndpoint(NamedTuple):
    """The token endpoint. `context`: of its TLS; None for that of the system."""

    url: str
    timeout_s: float
    context: ssl.SSLContext | None = None


def file_tokens(url: str) -> TokenSupplier:
    return lambda: read(url).decode("utf-8", "replace").strip()


def endpoint_tokens(endpoint: TokenEndpoint, grant: Grant) -> TokenSupplier:
    """Tokens of an endpoint."""
    url, timeout_s, context = endpoint
    fixed = {
        "Accept": "application/json",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }

    def get() -> str:
        form, headers = grant()
        data = urllib.parse.urlencode(form).encode()
        content = read(url, data=data, headers=fixed | headers, timeout_s=timeout_s, context=context)
        try:
            response = json.loads(content)
        except RecursionError:
            raise ValueError("the response is nested too deeply") from None
        token = (response.get("access_token") or response.get("id_token")) if isinstance(response, dict) else None
        if not isinstance(token, str):
            raise ValueError("the response has no access_token")
        return token

    return get


def unsecured_tokens(claims: Mapping[str, JsonValue], lifetime_s: float) -> TokenSupplier:
    """Tokens without a signature, which only a listener that takes such tokens admits."""

    def part(value: Mapping[str, JsonValue]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    def make() -> str:
        now_s = time.time()
        return f"{part({'alg': 'none'})}.{part({'iat': now_s, 'exp': now_s + lifetime_s, **claims})}."

    return make


class CurrentToken:
    """The token of this node. It is used by threads."""

    def __init__(self, supply: TokenSupplier, times: RefreshTimes, source: str) -> None:
        self._supply = supply
        self._times = times
        self._source = source
        self._lock = threading.Lock()
        self._token = ""
        self._refresh_s = 0.0
        self._expires_s = 0.0
        self._backoff_s = times.first_backoff_s
        self._retry_s = 0.0
        self._failure = ""

    def get(self) -> str:
        """Returns a token that has not expired; gets a new one if it is time. Raises AuthenticationFailed."""
        with self._lock:
            now_s = time.time()
            if now_s >= self._refresh_s and now_s >= self._retry_s:
                self._replace(now_s)
            if now_s >= self._expires_s:
                raise AuthenticationFailed(f"this node has no token for it: {self._failure}")
            return self._token

    def _replace(self, now_s: float) -> None:
        try:
            self._take(self._supply(), now_s)
        except Exception as error:  # of a user's own class too; the words of it may have a secret
            self._failure = f"{self._source}: {_words_of(error)}"
            self._retry_s = now_s + self._backoff_s
            self._backoff_s = min(self._times.most_backoff_s, 2 * self._backoff_s)
            return
        self._backoff_s, self._retry_s = self._times.first_backoff_s, 0.0

    def _take(self, token: str, now_s: float) -> None:
        _, claims, _ = parts_of(token)
        expires_s, begins_s = claims.get("exp"), claims.get("iat", now_s)
        if not isinstance(expires_s, (int, float)) or not isinstance(begins_s, (int, float)):
            raise TokenRejected("the token has no claim exp, or its claim iat is not a time")
        if expires_s <= now_s:
            raise TokenRejected("the token has expired")
        self._token, self._expires_s = token, float(expires_s)
        self._refresh_s = self._times.refresh_s(begins_s, expires_s, now_s, random.random())


def _words_of(error: Exception) -> str:
    """Returns what may be logged: an error's own words may have a part of a token or a secret."""
    match error:
        case TokenRejected():
            return str(error)
        case urllib.error.HTTPError():
            return f"it returned HTTP status {error.code}"
        case urllib.error.URLError():
            return f"{type(error.reason).__name__}"
        case http.client.HTTPException() | OSError() | ValueError():
            return type(error).__name__
    return f"your own class failed: {type(error).__name__}"


class OAuthLogin(NamedTuple):
    """How this node logs in by OAUTHBEARER, see `Login`."""

    username: str
    token: CurrentToken
    extensions: Mapping[str, str]
    mechanism: str = "OAUTHBEARER"
    may_wait: bool = True

    def client(self, host: str) -> OAuthClient:
        return OAuthClient(self.token.get, self.extensions)
