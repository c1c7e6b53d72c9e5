"""SASL OAUTHBEARER: the tokens of clients, the keys of their issuer, and the settings of a listener (KIP-255, KIP-768)."""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
import ssl
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Hashable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from ....client.sasl import AuthenticationFailed
from ....metadata.configs import BrokerValues, InvalidConfig
from ....storage.files.open_files import read_regular_file
from ...config.broker_config import BrokerConfig, is_own_class, load_class
from ..tls_contexts import client_context, read_settings, read_stores
from .authentication import HANDLER, Identity

if TYPE_CHECKING:
    from ....protocol.json_value import JsonObject, JsonValue
    from .jaas import JaasEntry

# TLS to an OAuth issuer: the `ssl.*` options of the login module, as Kafka's JaasOptionsUtils takes them (KIP-768).


_PREFIX = "ssl."
_LISTENER = "ISSUER"


def ssl_options(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a login module that are about TLS."""
    return {name: text for name, text in options.items() if name.startswith(_PREFIX)}


def issuer_context(url: str, options: Mapping[str, str]) -> ssl.SSLContext | None:
    """Returns the context of connections to the issuer; None for that of the system. Raises InvalidConfig.

    The host name is checked whatever `ssl.endpoint.identification.algorithm` is, as Java does for HTTPS.
    """
    found = ssl_options(options)
    if not found or not url.lower().startswith("https:"):
        return None
    values = BrokerValues(found)
    settings = read_settings(values, _LISTENER, "SSL")
    context = client_context(settings, read_stores(settings))
    context.check_hostname = True
    return context


# Documents of an OAuth issuer: keys and tokens, from a file or by HTTP. They block, so they run on threads.


#: Limit of a list of keys, or a token; real ones have some 10 KiB.
MOST_BYTES = 1 << 20
#: For a server that is silent.
TIMEOUT_S = 10.0


def is_readable(url: str) -> bool:
    """Returns whether the URL is one of a file or a server."""
    return urllib.parse.urlsplit(url).scheme in ("file", "http", "https")


def read(
    url: str,
    *,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    context: ssl.SSLContext | None = None,
) -> bytes:
    """Returns the document. `data` is posted. `context`: of HTTPS; None for that of the system. Raises OSError or
    ValueError.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        found = read_regular_file(urllib.request.url2pathname(parts.path), MOST_BYTES + 1)
    else:
        request = urllib.request.Request(url, data, dict(headers or {}))
        with urllib.request.urlopen(request, timeout=timeout_s, context=context) as response:
            found = bytes(response.read(MOST_BYTES + 1))
    if len(found) > MOST_BYTES:
        raise ValueError("the document is too long")
    return found


def shown_url(url: str) -> str:
    """Returns the URL without what may be a secret."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((parts.scheme, parts.hostname or "", parts.path, "", ""))


# The claims of JSON web tokens (RFC 7519): what a token must say to be valid, and the unsecured tokens of Kafka's
# tests.


Claims = Mapping[str, "JsonValue"]
#: Names as long as Kafka's own principals are.
MOST_NAME_CHARACTERS = 1024


class ClaimChecks(NamedTuple):
    """The claims to check. Empty audiences and no issuer are not checked."""

    subject_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_ms: int = 0
    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    required_scope: tuple[str, ...] = ()
    needs_issue_time: bool = True


def identity_of(claims: Claims, checks: ClaimChecks, now_ms: int) -> Identity:
    """Raises TokenRejected."""
    expires_ms = _time_ms(claims, "exp")
    if expires_ms is None:
        raise TokenRejected("it has no claim exp")
    if now_ms - checks.clock_skew_ms >= expires_ms:
        raise TokenRejected("it has expired")
    issued_ms, begins_ms = _time_ms(claims, "iat"), _time_ms(claims, "nbf")
    if issued_ms is None and checks.needs_issue_time:
        raise TokenRejected("it has no claim iat")
    if issued_ms is not None and (issued_ms > now_ms + checks.clock_skew_ms or issued_ms >= expires_ms):
        raise TokenRejected("it was issued in the future, or after its expiry")
    if begins_ms is not None and begins_ms > now_ms + checks.clock_skew_ms:
        raise TokenRejected("it is not valid yet (nbf)")
    if checks.issuer is not None and claims.get("iss") != checks.issuer:
        raise TokenRejected("it has another issuer")
    if checks.audiences and not set(_texts(claims, "aud")) & set(checks.audiences):
        raise TokenRejected("it is for another audience")
    scopes = {scope for text in _texts(claims, checks.scope_claim) for scope in text.split()}
    if not scopes.issuperset(checks.required_scope):
        wanted = f"[{', '.join(checks.required_scope)}]"
        raise TokenRejected("it lacks a scope that is required", "insufficient_scope", wanted)
    return Identity(_subject(claims, checks.subject_claim), expires_ms)


def _subject(claims: Claims, name: str) -> str:
    subject = claims.get(name)
    if not isinstance(subject, str) or not subject.strip() or len(subject) > MOST_NAME_CHARACTERS:
        raise TokenRejected(f"its claim {name} is not a name")
    return subject


def _time_ms(claims: Claims, name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1 << 53:
        raise TokenRejected(f"its claim {name} is not a time")
    return int(value * 1000)


def _texts(claims: Claims, name: str) -> list[str]:
    """The texts of a claim that is one text or a list; none for anything else."""
    value = claims.get(name)
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def parts_of(token: str) -> tuple[JsonObject, JsonObject, str]:
    """Returns the header, the claims, and the signature as text. Raises TokenRejected."""
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRejected("it does not have three parts")
    return _object(parts[0]), _object(parts[1]), parts[2]


def _object(text: str) -> JsonObject:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
        found = json.loads(data)
    except (binascii.Error, ValueError, RecursionError):
        raise TokenRejected("a part of it is not JSON in base64") from None
    if not isinstance(found, dict):
        raise TokenRejected("a part of it is not a JSON object")
    return found


def unsecured_validator(options: Mapping[str, str]) -> TokenValidator:
    """Returns the validator of tokens without a signature (`alg: none`). `options`: of the JAAS configuration."""

    def option(name: str, default: str) -> str:
        return options.get(f"unsecuredValidator{name}", "").strip() or default

    skew = option("AllowableClockSkewMs", "0")
    if not (skew.isascii() and skew.isdigit() and len(skew) <= 10):
        raise InvalidConfig("unsecuredValidatorAllowableClockSkewMs must be a number of milliseconds")
    checks = ClaimChecks(
        option("PrincipalClaimName", "sub"),
        option("ScopeClaimName", "scope"),
        int(skew),
        required_scope=tuple(option("RequiredScope", "").split()),
        needs_issue_time=False,
    )

    def validate(token: str, now_ms: int) -> Identity:
        header, claims, signature = parts_of(token)
        if header.get("alg") != "none" or signature:
            raise TokenRejected("it is signed, but this listener accepts only unsecured tokens")
        return identity_of(claims, checks, now_ms)

    return validate


# The keys of an issuer of tokens (JWKS), from a file or a URL, fetched again by a thread (KIP-768).
#
# A token with an unknown key id makes the broker fetch the keys soon, at most once in ten seconds: a client can
# invent ids.


log = logging.getLogger("odradek.security")

#: Between fetches for keys that tokens name.
LOOK_AGAIN_S = 10.0


class FetchTimes(NamedTuple):
    """sasl.oauthbearer.jwks.endpoint.refresh.ms, .retry.backoff.ms and .retry.backoff.max.ms, in seconds."""

    refresh_s: float
    first_backoff_s: float
    most_backoff_s: float


class Jwks:
    """The keys at a URL. The first fetch is made at once; a thread makes the others, until `stop`."""

    def __init__(self, url: str, times: FetchTimes, context: ssl.SSLContext | None = None) -> None:
        """Raises InvalidConfig for a URL that is none of a file or server. One that fails now is tried again."""
        if not is_readable(url):
            raise InvalidConfig("sasl.oauthbearer.jwks.endpoint.url is not a URL of file, http or https")
        self._url = url
        self._times = times
        self._context = context
        self._keys: Sequence[SigningKey] = ()
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        failed = self._fetch()
        self._thread = threading.Thread(target=self._run, args=(failed,), name="odradek-jwks", daemon=True)
        self._thread.start()

    def current(self) -> Sequence[SigningKey]:
        return self._keys

    def look_for(self, key_id: str) -> None:
        self._wanted.set()

    def stop(self) -> None:
        self._stopped.set()
        self._wanted.set()

    def _run(self, failed: bool) -> None:
        times = self._times
        backoff_s = times.first_backoff_s
        while not self._stopped.is_set():
            if failed:
                self._stopped.wait(backoff_s)
                backoff_s = min(times.most_backoff_s, 2 * backoff_s)
            else:
                backoff_s = times.first_backoff_s
                if self._wanted.wait(times.refresh_s):
                    self._stopped.wait(max(0.0, self._fetched_s + LOOK_AGAIN_S - monotonic()))
                self._wanted.clear()
            if not self._stopped.is_set():
                failed = self._fetch()

    def _fetch(self) -> bool:
        """Returns True if it failed; the keys then stay as they were."""
        self._fetched_s = monotonic()
        try:
            found = signing_keys(json.loads(read(self._url, context=self._context)))
        except (OSError, ValueError, RecursionError) as error:
            log.error("the keys at %s cannot be read: %s", shown_url(self._url), type(error).__name__)
            return True
        self._keys = found
        return False


# Signed JSON web tokens, checked against the keys of their issuer (JWKS; KIP-768). PyJWT verifies signatures.
#
# The key decides which algorithms are taken: a key for RSA never verifies an HMAC, and `alg: none` is never taken.


#: By the type of a key (RFC 7518, section 6.1). Secret keys (oct) are not taken from a public list.
_ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
#: Keys that are tried for a token that names none.
_MOST_TRIED = 10
_NOT_INSTALLED = (
    "sasl.enabled.mechanisms: OAUTHBEARER with signed tokens needs packages that are not installed: "
    "pip install 'odradek[security]'"
)


class SigningKey(NamedTuple):
    id: str | None
    #: The algorithms that the key may verify.
    algorithms: tuple[str, ...]
    #: The key as an object of PyJWT.
    key: Any


def signing_keys(key_set: JsonValue) -> list[SigningKey]:
    """Returns the keys of a JWKS document that verify signatures. Raises ValueError if it is no such document."""
    import jwt

    listed = key_set.get("keys") if isinstance(key_set, dict) else None
    if not isinstance(listed, list):
        raise ValueError("the document has no list of keys")
    found = []
    for data in listed:
        if not isinstance(data, dict):
            continue
        algorithms = _ALGORITHMS.get(str(data.get("kty")), ())
        if not algorithms or data.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK(data)
        except jwt.PyJWTError:
            continue  # one that this library does not have; the others count
        named = data.get("alg")
        key_id = data.get("kid")
        allowed = tuple(name for name in algorithms if named in (None, name))
        found.append(SigningKey(key_id if isinstance(key_id, str) else None, allowed, key))
    return found


class KeySource(NamedTuple):
    """The keys of the issuer now, and what asks for newer ones when a token names a key that is not among them."""

    current: Callable[[], Sequence[SigningKey]]
    look_for: Callable[[str], None]


def signed_validator(source: KeySource, checks: ClaimChecks) -> TokenValidator:
    """Raises InvalidConfig where the packages are not installed."""
    try:
        import cryptography  # noqa: F401
        import jwt
    except ImportError:
        raise InvalidConfig(_NOT_INSTALLED) from None

    def validate(token: str, now_ms: int) -> Identity:
        header, claims, _ = parts_of(token)
        algorithm, key_id = str(header.get("alg")), header.get("kid")
        candidates = [one for one in source.current() if algorithm in one.algorithms and key_id in (None, one.id)]
        if not candidates:
            if isinstance(key_id, str):
                source.look_for(key_id)
            raise TokenRejected("no key of its issuer has signed it")
        for candidate in candidates[:_MOST_TRIED]:
            try:
                jwt.PyJWS().decode(token, candidate.key, algorithms=[algorithm])
            except jwt.PyJWTError:
                continue
            return identity_of(claims, checks, now_ms)
        raise TokenRejected("its signature is wrong")

    return validate


# SASL OAUTHBEARER (RFC 7628, KIP-255): the client's token, checked by a validator.
#
# A token that is refused is answered by a JSON error; the client acknowledges it with one byte, and the exchange
# fails. So does Kafka. Extensions are read, and mean nothing.


_ACKNOWLEDGED = b"\x01"
_SASL_NAME = re.compile(r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+")
_KEY = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_BEARER = re.compile(r"(?i:bearer) +([-_~+/.a-zA-Z0-9]+=*)")
#: Tokens have some 2 KiB; what is longer costs time to parse.
MOST_MESSAGE_BYTES = 64 * 1024


class TokenRejected(Exception):
    """A token is not valid. The words are for the log, and have no part of the token but names of claims."""

    def __init__(self, words: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(words)
        self.status = status
        self.scope = scope


@runtime_checkable
class TokenValidator(Protocol):
    """Decides whether a token is valid. A user's own class may be one (`python:package.module:Name` in
    `sasl.server.callback.handler.class`). It runs in the broker's event loop: it must not wait for anything.
    """

    def __call__(self, token: str, now_ms: int) -> Identity:
        """Returns the identity that the token stands for. Raises TokenRejected."""


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
    is_header = start == "n" and (rest == "," or (rest[:2] == "a=" and _SASL_NAME.fullmatch(authorization_id)))
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


# OAUTHBEARER as the configuration of a listener describes it (KIP-255, KIP-768).
#
# `sasl.server.callback.handler.class` chooses the validator by Kafka's names of classes. Without it, tokens are
# checked against `sasl.oauthbearer.jwks.endpoint.url` if that is set; otherwise unsecured tokens are taken, as Kafka
# does.


_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
_SIGNED = (
    f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
)
_UNSECURED = (
    f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    "OAuthBearerUnsecuredValidatorCallbackHandler",
)
_URL = "sasl.oauthbearer.jwks.endpoint.url"
_TIMES = (
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
)


class KeySets:
    """The key sets of all listeners: one for each URL and its TLS, for as long as the node runs."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Hashable], Jwks] = {}

    def at(self, url: str, times: FetchTimes, options: Mapping[str, str]) -> Jwks:
        """Returns the keys at a URL. `options`: of the login module. Raises InvalidConfig."""
        place = url, frozenset(ssl_options(options).items())
        if place not in self._found:
            self._found[place] = Jwks(url, times, issuer_context(url, options))
        return self._found[place]

    def stop(self) -> None:
        for key_set in self._found.values():
            key_set.stop()


def token_validator(
    config: BrokerConfig, listener: str, handler: str | None, jaas: JaasEntry | None, key_sets: KeySets
) -> TokenValidator:
    """Raises InvalidConfig. `handler`: the class that `HANDLER` names for this listener and mechanism."""
    if handler is not None and is_own_class(handler):
        validator: TokenValidator = load_class(HANDLER, handler, TokenValidator)
        return validator
    options = jaas.options if jaas is not None else {}
    if handler in _SIGNED or (handler is None and config.get(_URL) is not None):
        return _signed_validator(config, key_sets, options)
    if handler is not None and handler not in _UNSECURED:
        raise InvalidConfig(f"{HANDLER}: {handler} is not supported; use {_SIGNED[0]}")
    log.warning("listener %s accepts OAuth tokens without a signature: anyone can create them", listener)
    return unsecured_validator(options)


def _signed_validator(config: BrokerConfig, key_sets: KeySets, options: Mapping[str, str]) -> TokenValidator:
    url = config.get(_URL)
    if not url:
        raise InvalidConfig(f"{_URL} is not set: set the URL of the issuer's keys")
    checks = _checks(config)
    times = FetchTimes(*(config.get(key) / 1000 for key in _TIMES))
    # Last, since it begins a thread: nothing that is refused leaves one.
    key_set = key_sets.at(url, times, options)
    return signed_validator(KeySource(key_set.current, key_set.look_for), checks)


def _checks(config: BrokerConfig) -> ClaimChecks:
    audiences, issuer = config.get("sasl.oauthbearer.expected.audience"), config.get("sasl.oauthbearer.expected.issuer")
    if not audiences and not config.get("sasl.oauthbearer.allow.unverified.audience"):
        raise InvalidConfig(_unverified("audience"))
    if not issuer and not config.get("sasl.oauthbearer.allow.unverified.issuer"):
        raise InvalidConfig(_unverified("issuer"))
    return ClaimChecks(
        config.get("sasl.oauthbearer.sub.claim.name"),
        config.get("sasl.oauthbearer.scope.claim.name"),
        1000 * (config.get("sasl.oauthbearer.clock.skew.seconds") or 0),
        tuple(audiences),
        issuer or None,
    )


def _unverified(what: str) -> str:
    return (
        f"sasl.oauthbearer.expected.{what} is not set: tokens for other services would be accepted "
        f"(sasl.oauthbearer.allow.unverified.{what}=true accepts them)"
    )
