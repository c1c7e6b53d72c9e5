"""Makes the coordinators of groups and transactions, and the subsystem of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..coordinators.subsystem import CoordinatorsSubsystem
from ..share.subsystem import ShareSubsystem

if TYPE_CHECKING:
    from ..node import Node


def coordinators(node: Node) -> CoordinatorsSubsystem:
    return CoordinatorsSubsystem(
        node.config,
        node.clock,
        node.metadata,
        node.lines,
        node.late_imports,
        node.partitions,
        node.leaders,
        node.peers,
        node.controller,
        node.producer_ids,
    )


def share(node: Node) -> ShareSubsystem:
    return ShareSubsystem(
        node.config,
        node.clock,
        node.metadata,
        node.metrics,
        node.pools,
        node.listeners,
        node.partitions,
        node.leaders,
        node.coordinators,
        node.fetch_path,
        node.peers,
    )
