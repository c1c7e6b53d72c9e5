"""How a node logs in by OAUTHBEARER at others, as its configuration describes it (KIP-255, KIP-768).

`sasl.login.callback.handler.class` chooses where tokens come from, by Kafka's names of classes. Without it they are
unsecured, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ....metadata.configs import InvalidConfig
from ...config.own_classes import is_own_class, load_class
from .jaas import OAUTHBEARER_MODULE, JaasEntry
from .oauth_assertions import FILE, ISSUER, SUBJECT, SettingOf, assertions
from .oauth_issuer import TIMEOUT_S, is_readable, issuer_context, shown_url
from .oauth_login import (
    CurrentToken,
    Grant,
    OAuthLogin,
    RefreshTimes,
    TokenEndpoint,
    client_assertion,
    client_credentials,
    endpoint_tokens,
    file_tokens,
    jwt_bearer,
    unsecured_tokens,
)
from .token_supplier import TokenSupplier

if TYPE_CHECKING:
    from ....protocol.json_value import JsonObject

LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
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
        endpoint = TokenEndpoint(url, timeout_s, issuer_context(url, jaas.options))
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
