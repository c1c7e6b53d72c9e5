"""EndQuorumEpoch (key 54), versions 0-1: the leader of the quorum steps down, and says who may follow (KIP-595).

See replication/quorum/following.py.
"""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    call.broker.controller.quorum_request(call, call.request)
