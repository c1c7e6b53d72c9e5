"""The plan of a scan: which offsets of which partitions, cut into splits that may be read side by side.

A plan is made once, from a data directory (directory_plan.py) or a cluster (cluster_plan.py). Its splits are plain data: any
process that has the files, or reaches the cluster, reads them. What is appended afterwards belongs to the next plan, so
`ends` of one are the `starts` of the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from .split import Split


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Offsets of one partition, from `start` up to, and without, `end`. The log has `log_start` to `log_end`, which is
    the last stable offset with read_committed.
    """

    topic: str
    partition: int
    start: int
    end: int
    log_start: int
    log_end: int
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    topic: str
    partitions: tuple[PartitionPlan, ...]

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for one in self.partitions for split in one.splits)

    @property
    def starts(self) -> dict[int, int]:
        """Partition -> the first offset."""
        return {one.partition: one.start for one in self.partitions}

    @property
    def ends(self) -> dict[int, int]:
        """Partition -> the offset after the last one: what the next plan starts with."""
        return {one.partition: one.end for one in self.partitions}
