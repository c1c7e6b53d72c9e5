"""Reports of replicas' directories, which go to no controller."""

from __future__ import annotations

from odradek.server.partitions.directory_reports import DirectoryReports
from odradek.server.partitions.hosted_partition import HostedPartition

from tests.server.harness.subsystems import Driver

NODE = 0


class NotedReports(DirectoryReports):
    """`noted`: the replicas whose directories are to be reported."""

    def __init__(self) -> None:
        super().__init__(NODE, Driver())
        self.noted: list[HostedPartition] = []

    def add(self, hosted: HostedPartition) -> None:
        self.noted.append(hosted)
