"""Replication of a broker's partitions with other brokers; a single node never creates it.

The broker follows the partitions that others lead. Each belongs to one of `num.replica.fetchers` fetchers for its leader.
Each fetcher has a second one, for partitions that are added while the first waits for the leader. Followers join the ISR
of a partition that the broker leads as they fetch; followers that lag are removed by a check at half of
`replica.lag.time.max.ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ...storage.files.failures import LogDirectoryFailure
from .followed_partition import FollowedPartition

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..partitions.hosted_partition import HostedPartition
    from ..runtime.clock import Clock
    from .fetcher import ReplicaFetcher
    from .isr_changes import IsrChanges
    from .replication_quota import ReplicationQuotas
    from .truncations import Truncations

#: Fetchers for the same partitions, of which mostly the first has all.
FETCHERS_PER_SOURCE = 2


class Replication:
    """The fetchers of this broker, and its part in the ISRs of the partitions that it leads.

    `quotas`: of replicas that are not in the ISR. `truncations` cuts the logs of followers.
    `make_fetcher` makes the fetcher for a leader and a purpose.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        partitions: Iterable[HostedPartition],
        isr_changes: IsrChanges,
        quotas: ReplicationQuotas,
        make_fetcher: Callable[[int, str], ReplicaFetcher],
        truncations: Truncations,
    ) -> None:
        self._config = config
        self._clock = clock
        self._partitions = partitions
        self._make_fetcher = make_fetcher
        #: By the leader, the number of the fetcher, and its line.
        self._fetchers: dict[tuple[int, int, int], ReplicaFetcher] = {}
        self.isr_changes = isr_changes
        self.leaders, self.followers = quotas
        self._truncations = truncations
        self._is_closed = False
        self._plan_shrinking()

    def close(self) -> None:
        self._is_closed = True
        self.isr_changes.close()
        for fetcher in self._fetchers.values():
            fetcher.close()

    def follow(self, hosted: HostedPartition) -> None:
        """Follows the partition's leader, which is a new one, or the same in a new epoch."""
        role = hosted.role
        if role.is_leader or role.leader < 0 or hosted.offline or self._is_closed:
            return
        try:
            followed = FollowedPartition(hosted, self._clock.now_ms(), self._truncations)
        except LogDirectoryFailure as failure:
            hosted.on_failure(failure)
        else:
            self._fetcher_for(hosted).follow(followed)

    def _fetcher_for(self, hosted: HostedPartition) -> ReplicaFetcher:
        count = self._config.get("num.replica.fetchers")
        number = (hash(hosted.topic_id) * 31 + hosted.index) % count
        for line in range(FETCHERS_PER_SOURCE):
            fetcher = self._fetcher(hosted.role.leader, number, line)
            if not fetcher.is_waiting:
                return fetcher
        return self._fetcher(hosted.role.leader, number, 0)

    def _fetcher(self, leader: int, number: int, line: int) -> ReplicaFetcher:
        key = (leader, number, line)
        if key not in self._fetchers:
            self._fetchers[key] = self._make_fetcher(leader, f"fetcher-{number}-{line}-of-{leader}")
        return self._fetchers[key]

    def _plan_shrinking(self) -> None:
        lag_time_max_ms = self._config.get("replica.lag.time.max.ms")
        self._clock.call_at(self._clock.now_ms() + lag_time_max_ms // 2, self._shrink)

    def _shrink(self) -> None:
        if self._is_closed:
            return
        now_ms = self._clock.now_ms()
        for hosted in self._partitions:
            if len(hosted.role.isr) > 1 and hosted.role.is_leader and not hosted.offline:
                hosted.shrink_isr(now_ms)
        self._plan_shrinking()
