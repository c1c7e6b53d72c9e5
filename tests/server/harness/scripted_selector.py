"""The choice of a replica for consumers, which the test makes."""

from __future__ import annotations

from odradek.server.fetch.replica_selector import ReplicaSelector
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.runtime.node import Node


class ScriptedSelector(ReplicaSelector):
    """`nearer`: the replica in the rack of each consumer, -1 for none."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.config, node.identity.node_id, node.metadata)
        self.is_rack_aware = True
        self.nearer = -1

    def nearer_replica(self, rack: str, listener: str, hosted: HostedPartition, fetch_offset: int) -> int:
        return self.nearer
