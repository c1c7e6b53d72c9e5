"""AssignReplicasToDirs (key 73): in which directories a broker has its replicas (KIP-858)."""

from __future__ import annotations

from ..api.active_controller import decide
from ..network.dispatch import Call


def handle(call: Call) -> None:
    decide(call)
