"""The verification of logs, as reads use it. It verifies nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.protocol.records.errors import BatchError
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.replicas.scrubber import Scrubber


class NotedScrubber(Scrubber):
    """`calls`: the damage that reads meet. `inspecting`: what goes on after each inspection."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.inspecting: list[Callable[[], object]] = []

    def met(self, hosted: HostedPartition, damage: BatchError) -> None:
        self.calls.append(("met", hosted.index))

    def doubt(self, hosted: HostedPartition, offset: int) -> None:
        self.calls.append(("doubt", hosted.index, offset))

    def inspect(self, hosted: HostedPartition, base_offset: int, done: Callable[[], object] = lambda: None) -> None:
        self.calls.append(("inspect", hosted.index, base_offset))
        self.inspecting.append(done)

    def verify_soon(self, hosted: HostedPartition, base_offset: int) -> None:
        self.calls.append(("verify", hosted.index, base_offset))
