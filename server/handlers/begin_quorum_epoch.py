"""BeginQuorumEpoch (key 53), versions 0-1: a new leader of the quorum makes itself known (KIP-595, KIP-853).

See replication/quorum/replica.py.
"""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    call.broker.controller.quorum_request(call, call.request)
