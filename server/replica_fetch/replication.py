"""Replication of a broker's partitions with other brokers; a single node never creates it.

- The broker follows the partitions that others lead: each belongs to one of `num.replica.fetchers` fetchers for its
  leader. Each fetcher has a second one, for partitions that are added while the first waits for the leader.
- For the partitions that it leads, the broker requests changes of the ISR. Followers join as they fetch; followers that
  lag are removed by a check at half of `replica.lag.time.max.ms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.files.open_files import LogDirectoryFailure
from .followed_partition import FollowedPartition
from .isr_changes import IsrChanges
from .replica_fetcher import ReplicaFetcher
from .replication_quota import FOLLOWERS, LEADERS, ReplicationQuota

if TYPE_CHECKING:
    from ..node import Node
    from ..partitions.hosted_partition import HostedPartition

#: Fetchers for the same partitions, of which mostly the first has all.
FETCHERS_PER_SOURCE = 2


class Replication:
    def __init__(self, broker: Node) -> None:
        self._broker = broker
        #: By the leader, the number of the fetcher, and its line.
        self._fetchers: dict[tuple[int, int, int], ReplicaFetcher] = {}
        self.isr_changes = IsrChanges(broker)
        #: What leaders here may send, and followers here may fetch, of replicas that are not in sync.
        self.leaders = ReplicationQuota(broker, LEADERS)
        self.followers = ReplicationQuota(broker, FOLLOWERS)
        self._is_closed = False
        self._plan_shrinking()

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""
        return self._broker.controller.broker_epoch

    def close(self) -> None:
        self._is_closed = True
        self.isr_changes.close()
        for fetcher in self._fetchers.values():
            fetcher.close()

    def follow(self, hosted: HostedPartition) -> None:
        """To be called when a partition has another leader, or the same in another epoch."""
        role = hosted.role
        if role.is_leader or role.leader < 0 or hosted.offline or self._is_closed:
            return
        try:
            followed = FollowedPartition(hosted, self._broker.now_ms())
        except LogDirectoryFailure as failure:
            hosted.on_failure(failure)
        else:
            self._fetcher_for(hosted).follow(followed)

    def _fetcher_for(self, hosted: HostedPartition) -> ReplicaFetcher:
        count: int = self._broker.config.get("num.replica.fetchers")
        number = (hash(hosted.topic_id) * 31 + hosted.index) % count
        for line in range(FETCHERS_PER_SOURCE):
            fetcher = self._fetcher(hosted.role.leader, number, line)
            if not fetcher.is_waiting:
                return fetcher
        return self._fetcher(hosted.role.leader, number, 0)

    def _fetcher(self, leader: int, number: int, line: int) -> ReplicaFetcher:
        key = (leader, number, line)
        if key not in self._fetchers:
            self._fetchers[key] = ReplicaFetcher(self._broker, leader, f"fetcher-{number}-{line}-of-{leader}")
        return self._fetchers[key]

    def _plan_shrinking(self) -> None:
        lag_time_max_ms: int = self._broker.config.get("replica.lag.time.max.ms")
        self._broker.call_at(self._broker.now_ms() + lag_time_max_ms // 2, self._shrink)

    def _shrink(self) -> None:
        if self._is_closed:
            return
        now_ms = self._broker.now_ms()
        for hosted in self._broker.partitions:
            if len(hosted.role.isr) > 1 and hosted.role.is_leader and not hosted.offline:
                hosted.shrink_isr(now_ms)
        self._plan_shrinking()
