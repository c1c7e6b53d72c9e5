"""FetchSnapshot (key 59), versions 0-1: a piece of a snapshot of the metadata, for followers that lag far behind (KIP-630).

See replication/quorum/leading.py.
"""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    call.broker.controller.quorum_request(call, call.request)
