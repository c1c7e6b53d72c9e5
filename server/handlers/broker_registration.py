"""BrokerRegistration (key 62): a broker's incarnation, see replication/controller/brokers.py."""

from __future__ import annotations

from ..dispatch import Call


def handle(call: Call) -> None:
    liveness = call.broker.liveness
    assert liveness is not None, "a node without a controller has no controller listener"
    liveness.ask(call.request, call.version, call.reply, call.connection)
