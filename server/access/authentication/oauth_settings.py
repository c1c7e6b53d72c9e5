"""OAUTHBEARER as the configuration of a listener describes it (KIP-255, KIP-768).

`sasl.server.callback.handler.class` chooses the validator by Kafka's names of classes. Without it, tokens are checked
against `sasl.oauthbearer.jwks.endpoint.url` if that is set; otherwise unsecured tokens are accepted, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Final

from ....metadata.configs import InvalidConfig
from ...config.broker_config import BrokerConfig
from ...config.own_classes import is_own_class, load_class
from .jwks import FetchTimes, Jwks, log
from .mechanism import HANDLER
from .oauth_claims import ClaimChecks, unsecured_validator
from .oauth_issuer import issuer_context, ssl_options
from .signed_tokens import KeySource, signed_validator
from .token_validator import TokenValidator

if TYPE_CHECKING:
    from ....metadata.configs.key_types import IntegerKey
    from .jaas import JaasEntry

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
_SIGNED = (
    f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
)
_UNSECURED = (
    f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    "OAuthBearerUnsecuredValidatorCallbackHandler",
)
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_TIMES: tuple[IntegerKey, IntegerKey, IntegerKey] = (
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
