"""State of partitions and of brokers: replicas, ISR and leaders, counted.

A partition is under-replicated where its ISR lacks a replica, as for Apache Kafka. One without a leader has a count of its
own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class PartitionState(NamedTuple):
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)

    @property
    def has_leader(self) -> bool:
        return self.leader >= 0


@dataclass(slots=True)
class ReplicaCounts:
    """Counts over partitions. `leads`, `holds`, `lacks`: for each broker the partitions that it leads, those of which it has
    a replica, and of these the ones whose ISR it is not in.
    """

    partitions: int = 0
    under_replicated: int = 0
    without_leader: int = 0
    replicas: int = 0
    leads: Counter[int] = field(default_factory=Counter)
    holds: Counter[int] = field(default_factory=Counter)
    lacks: Counter[int] = field(default_factory=Counter)

    def add(self, partitions: Iterable[PartitionState]) -> ReplicaCounts:
        """Counts these too. `replicas` is the most of one partition. Returns itself."""
        for one in partitions:
            self.partitions += 1
            self.replicas = max(self.replicas, len(one.replicas))
            self.leads[one.leader] += 1
            self.holds.update(one.replicas)
            self.without_leader += not one.has_leader
            if one.is_under_replicated:
                self.under_replicated += 1
                self.lacks.update(set(one.replicas) - set(one.isr))
        return self
