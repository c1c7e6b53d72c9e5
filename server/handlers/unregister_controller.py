"""UnregisterController (key 94): KIP-1312, see replication/controller/brokers.py."""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    call.broker.controller.submit(call.request, call.version, call.reply, principal=call.principal)
