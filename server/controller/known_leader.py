"""The leader of the quorum, by the last news of this node, and the times without one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from ...protocol.node_ids import NO_NODE
from ..runtime.counters import LeaderlessTimes

log = logging.getLogger("odradek.quorum")


class QuorumLeader(NamedTuple):
    """The leader of the quorum. `is_active`: this node leads and its controller is active."""

    id: int = NO_NODE
    epoch: int = 0
    is_active: bool = False


class KnownLeader:
    """The quorum's leader at this node, and the times without one."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.leader = QuorumLeader()
        self.leaderless = LeaderlessTimes()
        self.on_changed: list[Callable[[], None]] = []
        self._now_ms = now_ms

    def note(self, leader: QuorumLeader) -> None:
        if leader == self.leader:
            return
        self.leader = leader
        self.leaderless.leader_is(leader.id, self._now_ms())
        if leader.id == NO_NODE:
            log.info("the quorum has no known leader in epoch %d", leader.epoch)
        elif leader.is_active:
            log.info("this node is the active controller in epoch %d", leader.epoch)
        else:
            log.info("node %d leads the quorum in epoch %d", leader.id, leader.epoch)
        for function in list(self.on_changed):
            function()
