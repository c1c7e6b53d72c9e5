"""AddRaftVoter (key 80), versions 0-1: adds a voter to the quorum (KIP-853).

The leader decides, see replication/quorum/voter_changes.py; a broker forwards the request.
"""

from __future__ import annotations

from ..api.quorum_queries import ask_leader
from ..network.dispatch import Call


def handle(call: Call) -> None:
    if call.connection.dispatcher is call.broker.dispatcher and not call.broker.controller.is_active:
        ask_leader(call)
    else:
        call.broker.controller.quorum_request(call, call.request)
