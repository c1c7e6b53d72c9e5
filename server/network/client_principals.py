"""The principals of clients that do not log in with SASL.

A class of a user's own may make them (`principal.builder.class`); `context_of` is its argument.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..access.principals import AuthenticationContext, NoPrincipal, built

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from .connection import Connection


def context_of(
    connection: Connection,
    transport: asyncio.BaseTransport,
    principal: str,
    mechanism: str = "",
    authorization_id: str = "",
) -> AuthenticationContext:
    """Returns the argument of the builder. `principal`: the one that Kafka's default class makes."""
    found = transport.get_extra_info("ssl_object")
    config: BrokerConfig = connection.listener.shared.config
    return AuthenticationContext(
        connection.listener_name,
        config.listeners.protocols[connection.listener_name],
        connection.client_host.lstrip("/"),
        principal,
        mechanism,
        authorization_id,
        found.getpeercert(True) if found is not None else None,
    )


def authenticated(
    connection: Connection, transport: asyncio.BaseTransport, principal: str, mechanism: str = ""
) -> None:
    """Gives a connection without SASL its principal, or ends it. `mechanism`: for the audit log."""
    builder = connection.listener.principal_builder
    if builder is None:
        connection.principal = principal
        return
    try:
        connection.principal = built(builder, context_of(connection, transport, principal))
    except NoPrincipal as error:
        not_authenticated(connection, mechanism, str(error))


def not_authenticated(connection: Connection, mechanism: str, reason: str) -> None:
    """Ends a connection whose client did not prove who it is."""
    audit = connection.listener.shared.audit
    audit.failed_authentication(connection.client_host, connection.listener_name, mechanism, reason)
    connection.close_for(reason)
