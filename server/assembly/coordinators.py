"""Makes the subsystems of a broker: partitions, replicas, coordinators, the data path, share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..coordinators.subsystem import CoordinatorsSubsystem
from ..partitions.subsystem import PartitionsSubsystem
from ..produce.subsystem import DataPathSubsystem
from ..replicas.subsystem import ReplicasSubsystem
from ..share.subsystem import ShareSubsystem

if TYPE_CHECKING:
    from ..node import Node


def partitions(node: Node) -> PartitionsSubsystem:
    return PartitionsSubsystem(
        node.config,
        node.clock,
        node.metadata,
        node.metrics,
        node.lines,
        node.pools,
        node.background,
        node.directories,
        node.halt,
    )


def replicas(node: Node) -> ReplicasSubsystem:
    return ReplicasSubsystem(
        node.config,
        node.clock,
        node.metadata,
        node.lines,
        node.pools,
        node.background,
        node.damage,
        node.partitions,
        node.controller,
        node.peers,
    )


def coordinators(node: Node) -> CoordinatorsSubsystem:
    return CoordinatorsSubsystem(
        node.config,
        node.clock,
        node.metadata,
        node.lines,
        node.late_imports,
        node.partitions.hosted,
        node.replicas.leaders,
        node.peers,
        node.controller,
    )


def data_path(node: Node) -> DataPathSubsystem:
    return DataPathSubsystem(
        node.config,
        node.clock,
        node.metadata,
        node.pools,
        node.turns,
        node.deadlines,
        node.wakeups,
        node.access,
        node.listeners,
        node.partitions.hosted,
        node.replicas,
        node.coordinators,
    )


def share(node: Node) -> ShareSubsystem:
    return ShareSubsystem(
        node.config,
        node.clock,
        node.metadata,
        node.metrics,
        node.pools,
        node.listeners,
        node.partitions.hosted,
        node.replicas.leaders,
        node.coordinators,
        node.data_path.fetch,
        node.peers,
    )
