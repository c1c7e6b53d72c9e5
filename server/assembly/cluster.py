"""Makes the parts that work with other nodes: peers and the controller's subsystem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..controller.subsystem import ControllerSubsystem
from ..publisher import Publisher

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..node import Node


def controller(node: Node) -> ControllerSubsystem:
    return ControllerSubsystem(
        node.config,
        node.clock,
        node.metadata,
        node.lines,
        node.pools,
        node.background,
        node.cluster_id,
        node.directories,
        node.access,
        node.listeners,
        node.peers,
        node.partitions.hosted if node.config.is_broker else None,
        Publisher(node),
        node.endpoints.of_request,
        node.halt,
        node.failed,
    )


def peers(node: Node) -> Peers:
    from ...client.peers import Peers

    return Peers(f"odradek-{node.node_id}", node.access.sasl.login, node.listeners.tls.connection_arguments)
