"""Whether the process of the active controller has died: its connections end, and its port refuses.

A quorum waits for a silent leader until a timeout, since it may be slow; but a machine that says that nobody listens there
has said enough, and the replica is told (`LeaderGone`). A voter that is told wrongly asks the others before it begins an
epoch.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from .liveness import is_refused

if TYPE_CHECKING:
    from .broker import BrokerServer
    from .listener import Endpoint

log = logging.getLogger("odradek.quorum")

#: What the replica fetches by (`quorum_raft.py`): a connection that is always there while this node follows.
PURPOSE = "quorum-fetch"


class LeaderWatch:
    def __init__(self, broker: BrokerServer) -> None:
        self._broker = broker
        self._watched: set[Endpoint] = set()
        self._asking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._broker.controller.on_leader_changed.append(self._watch)
        self._watch()

    def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    def _watch(self) -> None:
        endpoint = self._broker.controller.leader_endpoint
        if endpoint is not None and endpoint not in self._watched:
            self._watched.add(endpoint)
            self._broker.peers.on_lost(endpoint, lambda: self._lost(endpoint), PURPOSE)

    def _lost(self, endpoint: Endpoint) -> None:
        leader_id = self._broker.controller.leader_id
        is_leader = self._broker.controller.leader_endpoint == endpoint and leader_id != self._broker.node_id
        if is_leader and (self._asking is None or self._asking.done()):
            self._asking = asyncio.get_running_loop().create_task(self._find_out(leader_id, endpoint))

    async def _find_out(self, leader_id: int, endpoint: Endpoint) -> None:
        raft = self._broker.controller.raft
        if raft is not None and await is_refused(endpoint.host, endpoint.port):
            log.warning("node %d, which led the quorum, is gone: its listener is refused", leader_id)
            raft.leader_is_gone(leader_id)
