"""The coordinator of a share group in a cluster."""

from __future__ import annotations

from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest

from tests.server.harness.cluster_process import Cluster

TOPIC = GROUP = "shared"


def coordinator(cluster: Cluster) -> str:
    def found() -> str | None:
        response = cluster.ask_any(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 6)
        one = response.coordinators[0] if response is not None else None
        running = {node.node_id for node in cluster.running()}
        return None if one is None or one.error_code or one.node_id not in running else f"{one.host}:{one.port}"

    address: str = cluster.until(found, "the group has a coordinator")
    return address
