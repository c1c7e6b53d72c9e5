"""AlterPartition (key 56): changes an ISR (KIP-497), see replication/controller/alter_partition.py."""

from __future__ import annotations

from ..api.active_controller import decide
from ..network.dispatch import Call


def handle(call: Call) -> None:
    decide(call)
