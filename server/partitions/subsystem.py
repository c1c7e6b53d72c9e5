"""The partitions that this broker hosts, as one subsystem: their replicas' logs, and the roles that the metadata gives them.

The work that a change of a partition begins (following a leader, healing) is that of the replicas' subsystem, which itself
works on the partitions: it comes in by the port `ReplicaWork`.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import partial
from typing import TYPE_CHECKING

from ..runtime.subsystem import Subsystem, stop_each
from .directory_choice import DirectoryChoice
from .partition_changes import PartitionChanges
from .partitions import Partitions
from .pending_partitions import PendingPartitions
from .reconfiguration import Reconfiguration
from .replica_creation import ReplicaCreation
from .replica_loading import ReplicaLoading
from .replica_opening import IsrRules, ReplicaOpening
from .roles import RoleAssignment
from .topic_settings import SettingsByTopic

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta, Part
    from ...metadata.image import MetadataImage
    from ...storage.files.failures import LogDirectoryFailure
    from ..runtime.node import Node
    from ..runtime.subsystem import Stop
    from .directory_reports import Controller, DirectoryReports
    from .replica_work import ReplicaWork


class PartitionsSubsystem(Subsystem):
    """The partitions by their names, and what opens, changes and reports them. Without a log directory the node halts."""

    name = "partitions"
    interest: Set[Part] = frozenset({"topics", "cluster", "configs"})

    def __init__(self, node: Node) -> None:
        self._node = node
        pending = PendingPartitions(node.identity.node_id, node.clock, node.metadata, node.lines)
        self.hosted = Partitions(node.directories, pending, node.clock, node.lines, self._directory_failed)
        self.hosted.background = node.background
        self._controller: Controller | None = None
        self._changes: PartitionChanges | None = None
        self._loading: ReplicaLoading | None = None

    def connect(self, controller: Controller, reports: DirectoryReports, work: ReplicaWork) -> None:
        """Fills the ports, before the first image. `reports` go to the controller."""
        self._controller = controller
        node = self._node
        config, clock, metadata, node_id = node.config, node.clock, node.metadata, node.identity.node_id
        settings = SettingsByTopic(config)
        isr_rules = IsrRules(metadata, config.get("replica.lag.time.max.ms"), work.propose)
        opening = ReplicaOpening(node, settings, self.hosted, isr_rules, work.damage_met)
        directories = DirectoryChoice(node_id, config, self.hosted)
        creation = ReplicaCreation(node_id, clock, node.lines, self.hosted, opening, directories, reports)
        loading = self._loading = ReplicaLoading(
            node_id,
            clock,
            self.hosted,
            opening,
            node.pools.disk,
            self._broker_epoch,
            lambda: controller.is_alone,
        )
        self.hosted.want = loading.want
        roles = RoleAssignment(node_id, clock, self._broker_epoch, work.follow, work.heal)
        reconfiguration = Reconfiguration(config, metadata, settings, self.hosted)
        self._changes = PartitionChanges(node_id, metadata, self.hosted, creation, loading, roles, reconfiguration)

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
        if not any(directory.is_online for directory in self._node.directories):
            self._node.halt.halt(failure)
