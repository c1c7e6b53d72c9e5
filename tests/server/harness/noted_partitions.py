"""The partitions of a broker around which there is no other part. They note the directories that fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.partitions.partitions import Partitions
from odradek.server.partitions.pending_partitions import PendingPartitions
from odradek.server.runtime.clock import Clock
from odradek.server.runtime.log_lines import RepeatedLines
from odradek.server.runtime.metadata_cache import MetadataCache
from odradek.storage.directory import LogDirectory
from odradek.storage.files.failures import LogDirectoryFailure

from tests.server.harness.hosted import NOW_MS
from tests.server.harness.set_clock import SetClock

NODE = 0


class NotedPartitions(Partitions):
    """`failures`: those of directories, without shortages of descriptors."""

    def __init__(
        self,
        hosted: Iterable[HostedPartition] = (),
        directories: Sequence[LogDirectory] = (),
        *,
        clock: Clock | None = None,
        metadata: MetadataCache | None = None,
        lines: RepeatedLines | None = None,
    ) -> None:
        self.failures: list[LogDirectoryFailure] = []
        clock, lines = clock or SetClock(NOW_MS), lines or RepeatedLines()
        pending = PendingPartitions(NODE, clock, metadata or MetadataCache(), lines)
        super().__init__(list(directories), pending, clock, lines, self.failures.append)
        for one in hosted:
            self.add(one)
