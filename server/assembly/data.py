"""Makes the parts that hold the data of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..fetch.sessions import FetchSessions, PartitionKey
from ..partitions.creation import IsrRules, ReplicaCreation, ReplicaOpening
from ..partitions.directories import DirectoryReports
from ..partitions.partitions import Partitions, ReplicaPlacement, UnmadePartitions
from ..partitions.roles import PartitionChanges, RoleAssignment
from ..partitions.topic_settings import Reconfiguration, SettingsByTopic
from ..replicas.cleaner import LogCleaner
from ..replicas.maintenance import LogMaintenance
from ..replicas.moves import ReplicaMoves
from ..replicas.scrubber import Scrubber

if TYPE_CHECKING:
    from ...replication.isr import IsrProposal
    from ..node import Node
    from ..partitions.hosted_partition import HostedPartition, Replica


def fetch_sessions(node: Node) -> FetchSessions:
    def is_hosted(key: PartitionKey, uses_topic_ids: bool) -> bool:
        partitions = node.partitions
        return (partitions.get_by_id if uses_topic_ids else partitions.get)(key) is not None

    made = FetchSessions(
        node.config.get("max.incremental.fetch.session.cache.slots"),
        node.config.get("odradek.fetch.session.cache.partitions"),
        node.turns.free,
        is_hosted,
    )
    node.listeners.on_connection_lost.append(made.connection_lost)
    return made


def partitions(node: Node) -> Partitions:
    unmade = UnmadePartitions(node.node_id, node.clock, node.metadata, node.lines)
    made = Partitions(node.directories, unmade, node.clock, node.lines, node.log_directory_failed)
    made.background = node.background
    return made


def directory_reports(node: Node) -> DirectoryReports:
    return DirectoryReports(node.node_id, lambda: node.controller)


def partition_changes(node: Node) -> PartitionChanges:
    def follow(hosted: HostedPartition) -> None:
        node.replication().follow(hosted)

    settings = SettingsByTopic(node.config)
    reconfiguration = Reconfiguration(node.config, node.metadata, settings, node.partitions)
    roles = RoleAssignment(
        node.node_id, node.clock, lambda: node.controller.broker_epoch, follow, lambda hosted: node.healer.wants(hosted)
    )
    creation = _replica_creation(node, _replica_opening(node, settings))
    return PartitionChanges(node.node_id, node.metadata, node.partitions, creation, roles, reconfiguration)


def _replica_opening(node: Node, settings: SettingsByTopic) -> ReplicaOpening:
    def propose(replica: Replica, proposal: IsrProposal) -> None:
        node.replication().isr_changes.propose(replica, proposal)

    return ReplicaOpening(
        node.node_id,
        node.clock,
        node.metrics,
        node.pools,
        settings,
        node.partitions,
        IsrRules(node.metadata, node.config.get("replica.lag.time.max.ms"), propose),
        lambda hosted, damage: node.scrubber.met(hosted, damage),
    )


def _replica_creation(node: Node, opening: ReplicaOpening) -> ReplicaCreation:
    placement = ReplicaPlacement(node.node_id, node.config, node.partitions)
    return ReplicaCreation(
        node.node_id, node.clock, node.lines, node.partitions, opening, placement, node.directory_reports
    )


def log_maintenance(node: Node) -> LogMaintenance:
    return LogMaintenance(node.config, node.clock, node.partitions, node.pools.disk, node.background)


def log_cleaner(node: Node) -> LogCleaner:
    def is_rewritten(hosted: HostedPartition) -> bool:
        return node.moves.get(hosted) is not None or node.healer.works_on(hosted)

    return LogCleaner(
        node.config,
        node.clock,
        node.partitions,
        node.maintenance,
        node.damage,
        node.pools.disk,
        is_rewritten,
        node.background,
    )


def scrubber(node: Node) -> Scrubber:
    return Scrubber(
        node.config,
        node.clock,
        node.partitions,
        node.damage,
        node.cleaner,
        node.pools.scrub,
        lambda hosted: node.healer.wants(hosted),
        node.background,
    )


def replica_moves(node: Node) -> ReplicaMoves:
    return ReplicaMoves(
        node.clock, node.partitions, node.cleaner, node.directory_reports, node.pools.disk, node.background
    )
