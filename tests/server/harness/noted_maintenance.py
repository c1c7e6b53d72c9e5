"""The maintenance of the logs of a broker, which a test asks for what is scheduled."""

from __future__ import annotations

from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.replicas.maintenance import LogMaintenance

from tests.server.harness.nodes import node_of
from tests.server.harness.noted_partitions import NotedPartitions


class NotedMaintenance(LogMaintenance):
    """`scheduled`: each partition whose removed segments are to be deleted, as often as it was scheduled."""

    def __init__(self, partitions: NotedPartitions | None = None) -> None:
        node = node_of()
        super().__init__(node.config, node.clock, partitions or NotedPartitions(), node.pools.disk, node.background)
        self.scheduled: list[HostedPartition] = []

    def schedule_segment_deletion(self, hosted: HostedPartition) -> None:
        super().schedule_segment_deletion(hosted)
        self.scheduled.append(hosted)
