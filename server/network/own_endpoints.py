"""The addresses of this node's listeners for clients and for the quorum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .listener import Endpoint

if TYPE_CHECKING:
    from ..broker import BrokerServer

_ANY_HOST = ("", "0.0.0.0", "::")


def own_endpoints(broker: BrokerServer) -> list[Endpoint]:
    """Returns the endpoints of this node's controller listeners: as advertised, otherwise as bound. A wildcard host
    becomes localhost.
    """
    told = {listener.name: listener for listener in broker.config.listeners.advertised_controllers}
    found = []
    for listener in broker.listeners:
        if listener.dispatcher is broker.dispatcher:
            continue
        endpoint, said = listener.endpoint, told.get(listener.name)
        if said is not None and said.host not in _ANY_HOST:
            endpoint = Endpoint(endpoint.name, said.host, said.port or endpoint.port)
        found.append(replace(endpoint, host="localhost") if endpoint.host in _ANY_HOST else endpoint)
    return found


def advertised_endpoints(broker: BrokerServer) -> list[Endpoint]:
    """Returns the endpoints that clients get; a listener that `advertised.listeners` does not name is given as it is
    bound.
    """
    bound = {listener.name: listener.endpoint for listener in broker.listeners}
    return [
        _advertised(bound[said.name], Endpoint(said.name, said.host, said.port))
        for said in broker.config.listeners.advertised
    ]


def _advertised(bound: Endpoint, said: Endpoint) -> Endpoint:
    """Port 0 stands for the port that was found; a wildcard host for this machine."""
    host, port = said.host or bound.host, said.port or bound.port
    return Endpoint(bound.name, "localhost" if host in _ANY_HOST else host, port)
