"""BrokerRegistration (key 62): a broker's incarnation, see replication/controller/brokers.py."""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    broker_sessions = call.broker.broker_sessions
    assert broker_sessions is not None, "a node without a controller has no controller listener"
    broker_sessions.ask(call.request, call.version, call.reply, call.connection)
