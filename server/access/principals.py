"""Principals by a class of a user's own: `principal.builder.class=python:package.module:Name` (KIP-189).

Without it they are made as Kafka's DefaultKafkaPrincipalBuilder makes them: the name of a certificate by
`ssl.principal.mapping.rules`, of SASL, or ANONYMOUS, of type User.
"""

from __future__ import annotations

import logging
from typing import NamedTuple, Protocol, runtime_checkable

from ...metadata.configs import InvalidConfig
from ..config.broker_config import BrokerConfig
from ..config.listener_prefix import listener_prefix
from ..config.own_classes import is_own_class, load_class

log = logging.getLogger("odradek.security")

KEY = "principal.builder.class"
_DEFAULT = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
_MOST_CHARACTERS = 1024


class AuthenticationContext(NamedTuple):
    """A client that has been authenticated, as its listener asks for it."""

    #: The name of the listener, and its security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
    listener: str
    security_protocol: str
    #: The address of the client: "127.0.0.1".
    client_host: str
    #: The principal that Kafka's default class makes: "User:alice".
    default_principal: str
    #: The mechanism of SASL, and the name that it has authenticated, such as "alice@REALM" of Kerberos; "" without SASL.
    mechanism: str = ""
    authorization_id: str = ""
    #: The client's certificate (DER), where it has one.
    certificate: bytes | None = None


@runtime_checkable
class PrincipalBuilder(Protocol):
    """Makes the principals of clients. It runs in the event loop, once for each connection: it must answer at once."""

    def build(self, context: AuthenticationContext) -> str:
        """Returns a principal, type and name: "User:alice". An exception ends the connection."""


class NoPrincipal(ValueError):
    """The builder made no principal for a client."""


def principal_builder(config: BrokerConfig, listener: str) -> PrincipalBuilder | None:
    """Returns the builder of a listener; None for the default. Raises InvalidConfig."""
    name = config.value_of(listener_prefix(listener) + KEY)
    if name in (None, _DEFAULT):
        return None
    assert isinstance(name, str)
    if not is_own_class(name):
        raise InvalidConfig(f"{KEY}={name}: use {_DEFAULT}, or python:package.module:Name for your own class")
    builder: PrincipalBuilder = load_class(KEY, name, PrincipalBuilder, config.values.static)
    return builder


def built(builder: PrincipalBuilder, context: AuthenticationContext) -> str:
    """Returns the principal of a client. Raises NoPrincipal, whose words are for the log."""
    try:
        principal = builder.build(context)
    except Exception as failure:  # its words may have a secret
        log.debug("%s failed", type(builder).__name__, exc_info=True)
        raise NoPrincipal(f"{type(builder).__name__} returned no principal: {type(failure).__name__}") from None
    kind, _, name = principal.partition(":") if isinstance(principal, str) else ("", "", "")
    if not kind or not name or len(principal) > _MOST_CHARACTERS:
        raise NoPrincipal(f"{type(builder).__name__} returned a principal that is not TYPE:NAME")
    return principal
