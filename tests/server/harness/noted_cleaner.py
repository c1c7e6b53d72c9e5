"""The cleaner of a broker that compacts nothing, as the other parts that rewrite logs use it."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.replicas.cleaner import LogCleaner
from odradek.storage.segments.poison import PoisonedBatch

from tests.server.harness.nodes import node_of
from tests.server.harness.noted_maintenance import NotedMaintenance
from tests.server.harness.noted_partitions import NotedPartitions


class NotedCleaner(LogCleaner):
    """`busy`: the partition whose log it works on. `was_cleaned`: whether it has cleaned all logs before."""

    def __init__(self) -> None:
        super().__init__(node_of(), NotedPartitions(), NotedMaintenance(), lambda hosted: False)
        self.busy: HostedPartition | None = None
        self.was_cleaned = False
        self.moves: list[tuple[HostedPartition, str]] = []
        self.verified: list[tuple[HostedPartition, list[PoisonedBatch], int, int]] = []

    def works_on(self, hosted: HostedPartition) -> bool:
        return hosted is self.busy

    def has_cleaned(self, hosted: HostedPartition) -> bool:
        return self.was_cleaned

    def moved(self, hosted: HostedPartition, source: str) -> None:
        super().moved(hosted, source)
        self.moves.append((hosted, source))

    def note_poisoned(
        self, hosted: HostedPartition, batches: Iterable[PoisonedBatch], first_offset: int, end_offset: int
    ) -> None:
        noted = list(batches)
        super().note_poisoned(hosted, noted, first_offset, end_offset)
        self.verified.append((hosted, noted, first_offset, end_offset))
