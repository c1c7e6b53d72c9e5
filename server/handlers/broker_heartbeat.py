"""BrokerHeartbeat (key 63): a broker lives, and how far it is (KIP-631), see server/cluster/broker_sessions.py."""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    broker_sessions = call.broker.broker_sessions
    assert broker_sessions is not None, "a node without a controller has no controller listener"
    broker_sessions.ask(call.request, call.version, call.reply, call.connection)
