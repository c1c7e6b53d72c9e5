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
import urllib.error
import urllib.parse
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from ....client.sasl import AuthenticationFailed, OAuthClient
from ....metadata.configs import InvalidConfig, Password
from ....storage.files.open_files import read_regular_file
from ...config.broker_config import is_own_class, load_class
from .jaas import OAUTHBEARER_MODULE, JaasEntry
from .oauth import TIMEOUT_S, TokenRejected, is_readable, issuer_context, parts_of, read, shown_url

if TYPE_CHECKING:
    from ....protocol.json_value import JsonObject, JsonValue


# Assertions: tokens that this node signs, for which the endpoint gives tokens to log in with (KIP-1139, RFC 7523).
#
# As Kafka's JwtBearerJwtRetriever makes them: the whole assertion from `sasl.oauthbearer.assertion.file`, or claims
# of the configuration, of a template file, and of the time, in this order, signed with the key of a file. Files are
# read for each assertion: they may be replaced while the node runs.


FILE = "sasl.oauthbearer.assertion.file"
ISSUER = "sasl.oauthbearer.assertion.claim.iss"
SUBJECT = "sasl.oauthbearer.assertion.claim.sub"
_KEY_FILE = "sasl.oauthbearer.assertion.private.key.file"
_TEMPLATE = "sasl.oauthbearer.assertion.template.file"
_CLAIMS = {
    "aud": "sasl.oauthbearer.assertion.claim.aud",
    "iss": ISSUER,
    "sub": SUBJECT,
}

Assertions = Callable[[], str]


#: Returns the value of a configuration key.
SettingOf = Callable[[str], Any]


def assertions(value: SettingOf) -> Assertions:
    """Returns what makes assertions. `value` reads a key of the listener. Raises InvalidConfig, for files too."""
    path = value(FILE)
    made: Assertions = _Signer(value) if not path else lambda: _assertion_in(path)
    try:
        made()
    except (OSError, ValueError, TypeError) as error:  # its words may have a part of a key
        files = FILE if path else f"{_KEY_FILE} or {_TEMPLATE}"
        raise InvalidConfig(f"{files}: no assertion can be made: {type(error).__name__}") from None
    return made


def _assertion_in(path: str) -> str:
    token = read_regular_file(path).decode().strip()
    try:
        parts_of(token)
    except TokenRejected as rejected:
        raise ValueError(str(rejected)) from None
    return token


class _Signer:
    """Makes assertions and signs them."""

    def __init__(self, value: SettingOf) -> None:
        try:
            import jwt  # noqa: F401
        except ImportError:
            raise InvalidConfig(f"{_KEY_FILE} needs a package: pip install 'odradek[security]'") from None
        if not value(_KEY_FILE):
            raise InvalidConfig(f"{_KEY_FILE} is not set: it names the key that signs assertions")
        self._key_file = Path(value(_KEY_FILE))
        self._passphrase: Password | None = value("sasl.oauthbearer.assertion.private.key.passphrase")
        self._algorithm: str = value("sasl.oauthbearer.assertion.algorithm").upper()
        self._claims = {name: value(key) for name, key in _CLAIMS.items() if value(key) is not None}
        self._template = Path(value(_TEMPLATE)) if value(_TEMPLATE) else None
        self._expires_s: int = value("sasl.oauthbearer.assertion.claim.exp.seconds")
        self._early_s: int = value("sasl.oauthbearer.assertion.claim.nbf.seconds")
        self._has_id: bool = value("sasl.oauthbearer.assertion.claim.jti.include")

    def __call__(self) -> str:
        import jwt
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        passphrase = None if self._passphrase is None else self._passphrase.value.encode()
        key = load_pem_private_key(read_regular_file(self._key_file), passphrase)
        headers, payload = self._templates()
        try:
            return jwt.PyJWS().encode(json.dumps(payload).encode(), key, self._algorithm, headers)  # type: ignore[arg-type]
        except jwt.PyJWTError as error:
            raise ValueError(type(error).__name__) from None

    def _templates(self) -> tuple[JsonObject, JsonObject]:
        """Returns headers and payload."""
        template: Mapping[str, JsonObject] = {}
        if self._template is not None:
            template = json.loads(read_regular_file(self._template))
        now_s = int(time.time())
        times = {"iat": now_s, "exp": now_s + self._expires_s, "nbf": now_s - self._early_s}
        ids = {"jti": str(uuid.uuid4())} if self._has_id else {}
        headers = dict(template.get("header", {})) | {"alg": self._algorithm, "typ": "JWT"}
        return headers, self._claims | dict(template.get("payload", {})) | times | ids


_CLIENT_CREDENTIALS = "client_credentials"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@runtime_checkable
class TokenSupplier(Protocol):
    """Gets a token. A user's own class may be one (`python:package.module:Name` in `sasl.login.callback.handler.class`).
    It is called on a thread, so it may wait; what it raises is a failed login.
    """

    def __call__(self) -> str:
        """Returns a JSON web token that has not expired."""


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


Grant = Callable[[], tuple[dict[str, str], dict[str, str]]]


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


class Endpoint(NamedTuple):
    """The token endpoint. `context`: of its TLS; None for that of the system."""

    url: str
    timeout_s: float
    context: ssl.SSLContext | None = None


def file_tokens(url: str) -> TokenSupplier:
    return lambda: read(url).decode("utf-8", "replace").strip()


def endpoint_tokens(endpoint: Endpoint, grant: Grant) -> TokenSupplier:
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
        response = json.loads(read(url, data=data, headers=fixed | headers, timeout_s=timeout_s, context=context))
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


# How a node logs in by OAUTHBEARER at others, as its configuration describes it (KIP-255, KIP-768).
#
# `sasl.login.callback.handler.class` chooses where tokens come from, by Kafka's names of classes. Without it they are
# unsecured, as in Kafka.


LOGIN_HANDLER = "sasl.login.callback.handler.class"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
_SECURED = (f"{_PACKAGE}.OAuthBearerLoginCallbackHandler", f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler")
_UNSECURED = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
_URL = "sasl.oauthbearer.token.endpoint.url"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_JWT_BEARER_GRANT = f"{_PACKAGE}.JwtBearerJwtRetriever"
_RETRIEVERS = (
    *(f"{_PACKAGE}.{name}JwtRetriever" for name in ("Default", "ClientCredentials", "File")),
    _JWT_BEARER_GRANT,
)
_EXTENSION = "extension_"
_TEXT_CLAIM, _NUMBER_CLAIM, _LIST_CLAIM = (f"unsecuredLogin{kind}Claim_" for kind in ("String", "Number", "List"))


def oauth_login(value: SettingOf, handler: str | None, jaas: JaasEntry, name: str) -> OAuthLogin:
    """Raises InvalidConfig. `value` reads a key of the listener; `name`: the key of the login module `jaas`."""
    if jaas.module != OAUTHBEARER_MODULE:
        raise InvalidConfig(f"{name}: the login module of OAUTHBEARER is {OAUTHBEARER_MODULE}")
    extensions = {
        key.removeprefix(_EXTENSION): text for key, text in jaas.options.items() if key.startswith(_EXTENSION)
    }
    supply, source, username = _supplier(value, handler, jaas, name)
    return OAuthLogin(username, CurrentToken(supply, _times(value), source), extensions)


def _supplier(value: SettingOf, handler: str | None, jaas: JaasEntry, name: str) -> tuple[TokenSupplier, str, str]:
    """Returns what gets tokens, its name, and the name of who logs in; both are for the log."""
    if handler is not None and is_own_class(handler):
        return load_class(LOGIN_HANDLER, handler, TokenSupplier), handler, "this node"
    if handler in (None, _UNSECURED):
        return _unsecured(jaas, name)
    if handler not in _SECURED:
        raise InvalidConfig(f"{LOGIN_HANDLER}: {handler} is not supported; use {_SECURED[0]}")
    url, retriever = value(_URL), value(_RETRIEVER)
    if not url:
        raise InvalidConfig(f"{_URL} is not set: set the URL where this node gets its token")
    if not is_readable(url):
        raise InvalidConfig(f"{_URL} is not a URL of file, http or https")
    if retriever not in _RETRIEVERS:
        raise InvalidConfig(f"{_RETRIEVER}: {retriever} is not supported; use {_RETRIEVERS[0]}")
    if url.startswith("file:"):
        if retriever == _JWT_BEARER_GRANT:
            raise InvalidConfig(f"{_URL} is a file, and {retriever} needs an endpoint")
        return file_tokens(url), shown_url(url), "this node"
    grant, username = _grant(value, retriever, jaas, name)
    waits = [value(f"sasl.login.{kind}.timeout.ms") for kind in ("connect", "read")]
    timeout_s = max((wait_ms / 1000 for wait_ms in waits if wait_ms), default=TIMEOUT_S)
    try:
        endpoint = Endpoint(url, timeout_s, issuer_context(url, jaas.options))
    except InvalidConfig as invalid:
        raise InvalidConfig(f"{name}: {invalid}") from None
    return endpoint_tokens(endpoint, grant), shown_url(url), username


def _grant(value: SettingOf, retriever: str, jaas: JaasEntry, name: str) -> tuple[Grant, str]:
    """Returns what is sent for a token, and the name of who logs in."""
    options, scope = jaas.options, value("sasl.oauthbearer.scope")
    if retriever == _JWT_BEARER_GRANT:
        return jwt_bearer(assertions(value), scope), value(SUBJECT) or "this node"
    scope = scope or options.get("scope")
    client_id = value("sasl.oauthbearer.client.credentials.client.id") or options.get("clientId")
    if value(FILE) or value(ISSUER) is not None:
        return client_assertion(client_id, assertions(value), scope), client_id or "this node"
    secret = value("sasl.oauthbearer.client.credentials.client.secret")
    text = secret.value if secret is not None else options.get("clientSecret")
    if not client_id or not text:
        raise InvalidConfig(
            f"{name}: clientId or clientSecret is missing, with which this node gets its token (or "
            "sasl.oauthbearer.client.credentials.client.id and .secret)"
        )
    return client_credentials(client_id, text, scope), client_id


def _unsecured(jaas: JaasEntry, name: str) -> tuple[TokenSupplier, str, str]:
    claims: JsonObject = {}
    try:
        for key, text in jaas.options.items():
            if key.startswith(_TEXT_CLAIM):
                claims[key.removeprefix(_TEXT_CLAIM)] = text
            elif key.startswith(_NUMBER_CLAIM):
                claims[key.removeprefix(_NUMBER_CLAIM)] = float(text)
            elif key.startswith(_LIST_CLAIM) and text:
                claims[key.removeprefix(_LIST_CLAIM)] = [*text[1:].split(text[0])]
        lifetime_s = float(jaas.options.get("unsecuredLoginLifetimeSeconds", "3600"))
    except ValueError:
        raise InvalidConfig(f"{name}: a number option of an unsecured token is not a number") from None
    subject = claims.get(jaas.options.get("unsecuredLoginPrincipalClaimName", "sub"))
    if not isinstance(subject, str):
        raise InvalidConfig(
            f"{name}: {_TEXT_CLAIM}sub is missing, which names this node in an unsecured token; set {LOGIN_HANDLER} to "
            f"{_SECURED[0]} for tokens of an issuer"
        )
    return unsecured_tokens(claims, lifetime_s), "unsecured tokens", subject


def _times(value: SettingOf) -> RefreshTimes:
    return RefreshTimes(
        value("sasl.login.refresh.window.factor"),
        value("sasl.login.refresh.window.jitter"),
        value("sasl.login.refresh.min.period.seconds"),
        value("sasl.login.refresh.buffer.seconds"),
        value("sasl.login.retry.backoff.ms") / 1000,
        value("sasl.login.retry.backoff.max.ms") / 1000,
    )
