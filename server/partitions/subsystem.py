"""The partitions that this broker hosts, as one subsystem: their replicas' logs, and the roles that the metadata gives them.

The work that a change of a partition begins (following a leader, healing) is that of the replicas' subsystem, which itself
works on the partitions: it comes in by the port `ReplicaWork`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ..runtime.counters import BackgroundTasks
from ..runtime.subsystem import Stop, Subsystem, stop_each
from .creation import IsrRules, Reconfiguration, ReplicaCreation, ReplicaOpening, SettingsByTopic
from .loading import ReplicaLoading
from .partitions import Controller, DirectoryReports, Partitions, PendingPartitions, ReplicaPlacement
from .roles import PartitionChanges, RoleAssignment

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta
    from ...metadata.image import MetadataImage
    from ...protocol.records.errors import BatchError
    from ...replication.partition import IsrProposal
    from ...storage.directory import LogDirectory
    from ...storage.files.open_files import LogDirectoryFailure
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.counters import Metrics
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.metadata_cache import MetadataCache
    from ..runtime.thread_pools import ThreadPools
    from .hosted_partition import HostedPartition, Replica


class ReplicaWork(Protocol):
    """The work on replicas that changes of partitions begin."""

    def follow(self, hosted: HostedPartition) -> None:
        """Follows the leader of a replicated partition, after it or its epoch has changed."""

    def propose(self, replica: Replica, proposal: IsrProposal) -> None:
        """Has the controller change the ISR of a partition that is led here."""

    def heal(self, hosted: HostedPartition) -> None:
        """Heals a partition that has damaged records."""

    def damage_met(self, hosted: HostedPartition, damage: BatchError) -> None:
        """Takes up damaged records that a read has met."""


class PartitionsSubsystem(Subsystem):
    """The partitions by their names, and what opens, changes and reports them.

    `halt` ends a node that has no log directory any more.
    """

    name = "partitions"
    follows_images = True

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        metadata: MetadataCache,
        metrics: Metrics,
        lines: RepeatedLines,
        pools: ThreadPools,
        background: BackgroundTasks,
        directories: list[LogDirectory],
        halt: Callable[[Exception], object],
    ) -> None:
        self._config = config
        self._clock = clock
        self._metadata = metadata
        self._metrics = metrics
        self._lines = lines
        self._pools = pools
        self._directories = directories
        self._halt = halt
        pending = PendingPartitions(config.node_id, clock, metadata, lines)
        self.hosted = Partitions(directories, pending, clock, lines, self._directory_failed)
        self.hosted.background = background
        self._controller: Controller | None = None
        self._changes: PartitionChanges | None = None
        self._loading: ReplicaLoading | None = None

    def connect(self, controller: Controller, reports: DirectoryReports, work: ReplicaWork) -> None:
        """Fills the ports, before the first image. `reports` go to the controller."""
        self._controller = controller
        node_id = self._config.node_id
        settings = SettingsByTopic(self._config)
        opening = ReplicaOpening(
            node_id,
            self._clock,
            self._metrics,
            self._pools,
            settings,
            self.hosted,
            IsrRules(self._metadata, self._config.get("replica.lag.time.max.ms"), work.propose),
            work.damage_met,
        )
        placement = ReplicaPlacement(node_id, self._config, self.hosted)
        creation = ReplicaCreation(node_id, self._clock, self._lines, self.hosted, opening, placement, reports)
        loading = self._loading = ReplicaLoading(
            node_id,
            self._clock,
            self.hosted,
            opening,
            self._pools.disk,
            self._broker_epoch,
            lambda: controller.is_alone,
        )
        self.hosted.want = loading.want
        roles = RoleAssignment(node_id, self._clock, self._broker_epoch, work.follow, work.heal)
        reconfiguration = Reconfiguration(self._config, self._metadata, settings, self.hosted)
        self._changes = PartitionChanges(
            node_id, self._metadata, self.hosted, creation, loading, roles, reconfiguration
        )

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        """Makes and removes replicas, and gives them their roles."""
        assert self._changes is not None, "the work on replicas is not connected"
        return self._changes.steps(delta, image)

    async def stop(self) -> None:
        """Closes the logs: the next start scans nothing, unless the stop stands for a kill."""
        close = partial(self.hosted.close, self._broker_epoch(), clean=self.stops_cleanly)
        stops: list[Stop] = [self._changes.stop] if self._changes is not None else []
        if self._loading is not None:
            stops.append(self._loading.stop)
        await stop_each((*stops, close))

    def _broker_epoch(self) -> int:
        return -1 if self._controller is None else self._controller.broker_epoch

    def _directory_failed(self, failure: LogDirectoryFailure) -> None:
        """One of the directories is offline; without any, the broker cannot go on."""
        if not any(directory.is_online for directory in self._directories):
            self._halt(failure)
