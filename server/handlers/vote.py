"""Vote (key 52), versions 0-2: a candidate asks for a vote, or whether it would get it (KIP-595, KIP-853, KIP-996).

See replication/quorum/elections.py.
"""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    call.broker.controller.quorum_request(call, call.request)
