"""RemoveRaftVoter (key 81), version 0: takes a voter out of the quorum (KIP-853).

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
