"""BrokerHeartbeat (key 63): a broker lives, and how far it is (KIP-631), see server/liveness.py."""

from __future__ import annotations

from ..dispatch import Call


def handle(call: Call) -> None:
    liveness = call.broker.liveness
    assert liveness is not None, "a node without a controller has no controller listener"
    liveness.ask(call.request, call.version, call.reply, call.connection)
