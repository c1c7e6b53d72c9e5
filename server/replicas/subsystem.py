"""The work on the replicas of this broker, as one subsystem: retention, compaction, scrubbing, healing, moves, replication.

These parts meet each other: the cleaner leaves a replica alone that moves or is healed, the healer waits for the cleaner.
A broker whose partitions have one replica never makes what sends requests to other brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.directory import FUTURE_SUFFIX
from ..controller.cluster_view import Leaders
from ..partitions.partitions import DirectoryReports
from ..runtime.counters import BackgroundTasks
from ..runtime.subsystem import Lazy, Stop, Subsystem, stop_each
from .maintenance import LogCleaner, LogMaintenance
from .scrubber import Scrubber

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...protocol.records.errors import BatchError
    from ...replication.partition import IsrProposal
    from ..config.broker_config import BrokerConfig
    from ..controller.subsystem import ControllerSubsystem
    from ..partitions.hosted_partition import HostedPartition, Replica
    from ..partitions.subsystem import PartitionsSubsystem
    from ..runtime.clock import Clock
    from ..runtime.counters import DamageCounters
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.subsystem import MetadataCache
    from ..runtime.thread_pools import ThreadPools
    from .fetcher import FollowedPartition
    from .healing import Healer, ReplicaRequests
    from .moves import ReplicaMoves
    from .replication import Replication


class ReplicasSubsystem(Subsystem):
    """The work on replicas. It fills the port of the partitions (`ReplicaWork`)."""

    name = "replicas"

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        metadata: MetadataCache,
        lines: RepeatedLines,
        pools: ThreadPools,
        background: BackgroundTasks,
        damage: DamageCounters,
        partitions: PartitionsSubsystem,
        controller: ControllerSubsystem,
        peers: Lazy[Peers],
    ) -> None:
        self._config = config
        self._clock = clock
        self._metadata = metadata
        self._lines = lines
        self._damage = damage
        self._hosted = hosted = partitions.hosted
        self._controller = controller
        self._peers = peers
        #: Requests to other replicas of partitions.
        self._requests = Lazy(self._make_requests)
        #: Replication of partitions with the other replicas.
        self.replication = Lazy(self._make_replication)
        self.leaders = Leaders(
            metadata, hosted, inter_broker_listener=config.listeners.inter_broker_name, node_id=config.node_id
        )
        self._background = background
        self._disk = disk = pools.disk
        self._reports = reports = DirectoryReports(config.node_id, controller.driver)
        self.maintenance = LogMaintenance(config, clock, hosted, disk, background)
        self.cleaner = LogCleaner(config, clock, hosted, self.maintenance, damage, disk, self._is_rewritten, background)
        self.scrubber = Scrubber(config, clock, hosted, damage, self.cleaner, pools.scrub, self.heal, background)
        #: Repairs damaged replicas.
        self.healer = Lazy(self._make_healer)
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
        if self.moves.made is not None:
            stops.append(self.moves.made.stop)
        await stop_each(stops)

    # ---- the port of the partitions

    def follow(self, hosted: HostedPartition) -> None:
        self.replication().follow(hosted)

    def propose(self, replica: Replica, proposal: IsrProposal) -> None:
        self.replication().isr_changes.propose(replica, proposal)

    def heal(self, hosted: HostedPartition) -> None:
        self.healer().wants(hosted)

    def damage_met(self, hosted: HostedPartition, damage: BatchError) -> None:
        self.scrubber.met(hosted, damage)

    # ---- parts

    def _is_moving(self, hosted: HostedPartition) -> bool:
        return self.moves.made is not None and self.moves.made.get(hosted) is not None

    def _is_rewritten(self, hosted: HostedPartition) -> bool:
        return self._is_moving(hosted) or (self.healer.made is not None and self.healer.made.works_on(hosted))

    def _broker_epoch(self) -> int:
        return self._controller.broker_epoch

    def _make_healer(self) -> Healer:
        from .healing import Healer

        return Healer(
            self._clock,
            self._damage,
            self._disk,
            self._requests,
            self.cleaner,
            self.maintenance,
            self._is_moving,
            self._background,
        )

    def _make_moves(self) -> ReplicaMoves:
        from .moves import ReplicaMoves

        return ReplicaMoves(self._clock, self._hosted, self.cleaner, self._reports, self._disk, self._background)

    def _make_requests(self) -> ReplicaRequests:
        from .healing import ReplicaRequests

        return ReplicaRequests(self._config.node_id, self._broker_epoch, self._config, self._peers, self.leaders)

    def _start_behind_remote(self, followed: FollowedPartition) -> None:
        """Has a follower begin behind the part of the log that only the remote store has; its next fetch is delayed."""
        remote = self._hosted.remote
        if remote is not None:
            remote.start_follower(followed.hosted, followed.leader_start, lambda error: followed.changed(followed))

    def _make_replication(self) -> Replication:
        from .fetcher import ReplicaFetcher
        from .replication import FOLLOWERS, LEADERS, IsrChanges, Replication, ReplicationQuota

        config, clock, node_id = self._config, self._clock, self._config.node_id
        leaders, followers = (
            ReplicationQuota(node_id, config, clock, self._metadata, keys) for keys in (LEADERS, FOLLOWERS)
        )
        requests = self._requests()

        def make_fetcher(leader: int, purpose: str) -> ReplicaFetcher:
            behind_remote = None if self._hosted.remote is None else self._start_behind_remote
            return ReplicaFetcher(
                leader, purpose, requests, config, clock, followers, self._damage, self._lines, behind_remote
            )

        isr_changes = IsrChanges(node_id, self._broker_epoch, clock, self._controller.forwarding)
        return Replication(config, clock, self._hosted, isr_changes, leaders, followers, make_fetcher)
