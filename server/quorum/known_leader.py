"""Tracks the quorum's leader and the times without one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from ..runtime.counters import LeaderlessTimes

log = logging.getLogger("odradek.quorum")

NOBODY = -1


class Leader(NamedTuple):
    """The leader of the quorum. `is_active`: this node leads and its controller is active."""

    id: int = NOBODY
    epoch: int = 0
    is_active: bool = False


class KnownLeader:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.leader = Leader()
        self.leaderless = LeaderlessTimes()
        self.on_changed: list[Callable[[], None]] = []
        self._now_ms = now_ms

    def note(self, leader: Leader) -> None:
        if leader == self.leader:
            return
        self.leader = leader
        self.leaderless.leader_is(leader.id, self._now_ms())
        if leader.id == NOBODY:
            log.info("no leader of the quorum is known in epoch %d", leader.epoch)
        elif leader.is_active:
            log.info("this node is the active controller in epoch %d", leader.epoch)
        else:
            log.info("node %d leads the quorum in epoch %d", leader.id, leader.epoch)
        for function in list(self.on_changed):
            function()
