"""The work on the replicas of this broker, as one subsystem: retention, compaction, scrubbing, healing, moves, replication.

These parts meet each other: the cleaner leaves a replica alone that moves or is healed, the healer waits for the cleaner.
A broker whose partitions have one replica never makes what sends requests to other brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.directory import FUTURE_SUFFIX
from ..controller.leaders import Leaders
from ..partitions.directory_reports import DirectoryReports
from ..runtime.lazy import Lazy
from ..runtime.subsystem import Stop, Subsystem, stop_each
from .cleaner import LogCleaner
from .maintenance import LogMaintenance
from .scrubber import Scrubber

if TYPE_CHECKING:
    from ...protocol.records.errors import BatchError
    from ...replication.isr import IsrProposal
    from ..controller.subsystem import ControllerSubsystem
    from ..network.subsystem import NetworkSubsystem
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.replica import Replica
    from ..partitions.subsystem import PartitionsSubsystem
    from ..runtime.node import Node
    from .followed_partition import FollowedPartition
    from .healing import Healer
    from .moves import ReplicaMoves
    from .replica_requests import ReplicaRequests
    from .replication import Replication
    from .truncations import Truncations


class ReplicasSubsystem(Subsystem):
    """The work on replicas. It fills the port of the partitions (`ReplicaWork`)."""

    name = "replicas"

    def __init__(
        self,
        node: Node,
        network: NetworkSubsystem,
        partitions: PartitionsSubsystem,
        controller: ControllerSubsystem,
    ) -> None:
        self._node = node
        self._hosted = hosted = partitions.hosted
        self._controller = controller
        self._peers = network.peers
        config, node_id = node.config, node.identity.node_id
        #: Requests to other replicas of partitions.
        self._requests = Lazy(self._make_requests)
        #: Replication of partitions with the other replicas.
        self.replication = Lazy(self._make_replication)
        self.leaders = Leaders(
            node.metadata, hosted, inter_broker_listener=config.listeners.inter_broker_name, node_id=node_id
        )
        self._disk = disk = node.pools.disk
        self._reports = reports = DirectoryReports(node_id, controller.driver)
        self.maintenance = LogMaintenance(config, node.clock, hosted, disk, node.background)
        self.cleaner = LogCleaner(node, hosted, self.maintenance, self._is_rewritten)
        hosted.on_removed.append(self.cleaner.removed)
        self.scrubber = Scrubber(node, hosted, self.cleaner, self.heal)
        #: Repairs damaged replicas.
        self.healer = Lazy(self._make_healer)
        #: Truncations of the logs of followers.
        self.truncations = Lazy(self._make_truncations)
        #: Moves of replicas from one directory to another.
        self.moves = Lazy(self._make_moves)
        partitions.connect(controller.driver, reports, self)

    async def start(self) -> None:
        """Begins the work that is due at times, on partitions that the first image has made."""
        if any(self._hosted.replicas_on_disk(FUTURE_SUFFIX)):
            self.moves().resume()
        self.maintenance.start()
        self.cleaner.start()
        self.scrubber.start()

    async def stop(self) -> None:
        stops: list[Stop] = [self.scrubber.stop, self.cleaner.stop, self.maintenance.stop]
        if self.healer.made is not None:
            stops.insert(0, self.healer.made.stop)
        if self.replication.made is not None:
            stops.append(self.replication.made.close)
        if self.truncations.made is not None:
            stops.insert(0, self.truncations.made.stop)
        if self.moves.made is not None:
            stops.append(self.moves.made.stop)
        await stop_each(stops)

    # The port of the partitions.

    def follow(self, hosted: HostedPartition) -> None:
        self.replication().follow(hosted)

    def propose(self, replica: Replica, proposal: IsrProposal) -> None:
        self.replication().isr_changes.propose(replica, proposal)

    def heal(self, hosted: HostedPartition) -> None:
        self.healer().wants(hosted)

    def damage_met(self, hosted: HostedPartition, damage: BatchError) -> None:
        self.scrubber.met(hosted, damage)

    # Parts.

    def _is_moving(self, hosted: HostedPartition) -> bool:
        return self.moves.made is not None and self.moves.made.get(hosted) is not None

    def _is_rewritten(self, hosted: HostedPartition) -> bool:
        return self._is_moving(hosted) or (self.healer.made is not None and self.healer.made.works_on(hosted))

    def _broker_epoch(self) -> int:
        return self._controller.broker_epoch

    def _make_healer(self) -> Healer:
        from .healing import Healer

        return Healer(self._node, self._requests, self.cleaner, self.maintenance, self._is_moving)

    def _make_moves(self) -> ReplicaMoves:
        from .moves import ReplicaMoves

        clock, background = self._node.clock, self._node.background
        return ReplicaMoves(clock, self._hosted, self.cleaner, self._reports, self._disk, background)

    def _make_requests(self) -> ReplicaRequests:
        from .replica_requests import ReplicaRequests

        config = self._node.config
        return ReplicaRequests(config.node_id, self._broker_epoch, config, self._peers, self.leaders)

    def _make_truncations(self) -> Truncations:
        from .truncations import Truncations

        return Truncations(self._disk, self.cleaner, self._node.background)

    def _start_behind_remote(self, followed: FollowedPartition) -> None:
        """Has a follower begin behind the part of the log that only the remote store has; its next fetch is delayed."""
        remote, hosted = self._hosted.remote, followed.hosted
        if remote is None:
            return
        key, claims = (hosted.topic, hosted.index), hosted.directory.claims

        def start() -> None:
            claims.limit(key, 0)
            remote.start_follower(hosted, followed.leader_start, ended)

        def ended(error: int) -> None:
            if not hosted.is_removed:
                claims.release(key)
            followed.changed(followed)

        self.truncations().submit(hosted, 0, lambda: followed.is_current, start)

    def _make_replication(self) -> Replication:
        from .fetcher import ReplicaFetcher
        from .isr_changes import IsrChanges
        from .replication import Replication
        from .replication_quota import FOLLOWERS, LEADERS, ReplicationQuota, ReplicationQuotas

        node = self._node
        config, clock, node_id = node.config, node.clock, node.identity.node_id
        quotas = ReplicationQuotas(
            *(ReplicationQuota(node_id, config, clock, node.metadata, keys) for keys in (LEADERS, FOLLOWERS))
        )
        requests = self._requests()

        def make_fetcher(leader: int, purpose: str) -> ReplicaFetcher:
            behind_remote = None if self._hosted.remote is None else self._start_behind_remote
            return ReplicaFetcher(node, leader, purpose, requests, quotas.followers, behind_remote)

        isr_changes = IsrChanges(node_id, self._broker_epoch, clock, self._controller.forwarding)
        return Replication(config, clock, self._hosted, isr_changes, quotas, make_fetcher, self.truncations())
