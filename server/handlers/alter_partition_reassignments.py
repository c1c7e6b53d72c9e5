"""AlterPartitionReassignments (key 45): KIP-455, see replication/controller/reassignments.py."""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    call.broker.controller.submit(call.request, call.version, call.reply, principal=call.principal)
