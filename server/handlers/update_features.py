"""UpdateFeatures (key 57): KIP-584, see replication/controller/features.py."""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    call.broker.controller.submit(call.request, call.version, call.reply, principal=call.principal)
