"""ElectLeaders (key 43): preferred and unclean elections (KIP-460), see replication/controller/elections.py."""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    call.broker.controller.submit(call.request, call.version, call.reply, principal=call.principal)
