"""UpdateRaftVoter (key 82), version 0: a voter tells the leader where it is reached now (KIP-853).

See replication/quorum/voter_changes.py.
"""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    call.broker.controller.quorum_request(call, call.request)
