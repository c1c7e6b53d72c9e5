"""The quota of a leader for its followers, which the test turns on and exceeds."""

from __future__ import annotations

from odradek.server.partitions.replica import Replica
from odradek.server.replicas.replication_quota import ReplicationQuota


class ScriptedQuota(ReplicationQuota):
    """`recorded`: the bytes that followers were sent."""

    is_on = False
    throttled = False

    def __init__(self) -> None:
        self.recorded: list[int] = []

    def is_throttled(self, replica: Replica, follower: int) -> bool:
        return self.is_on and self.throttled

    def record(self, replica: Replica, size: int) -> None:
        self.recorded.append(size)
