"""The identity of a node: its id, and the id of the cluster that its log directories belong to."""

from __future__ import annotations


class NodeIdentity:
    """`cluster_id` is known when the log directories are open: formatting a directory gives it its cluster."""

    def __init__(self, node_id: int, cluster_id: str = "") -> None:
        self.node_id = node_id
        #: "" before the log directories are open.
        self.cluster_id = cluster_id

    def formatted(self, cluster_id: str) -> None:
        """Sets the cluster, once."""
        assert self.cluster_id in ("", cluster_id), (
            f"node {self.node_id} is in cluster {self.cluster_id}, not {cluster_id}"
        )
        self.cluster_id = cluster_id
