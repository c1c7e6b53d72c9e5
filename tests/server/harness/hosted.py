"""A replica of a partition with a real log in a folder, and no broker around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odradek.metadata.image import PartitionImage
from odradek.protocol.records.record import Record, encode_batch
from odradek.replication.isr import IsrProposal
from odradek.replication.replica_role import ReplicaRole
from odradek.server.partitions.append_rules import AppendRules
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.replicas.truncations import Truncations
from odradek.server.runtime.background_tasks import BackgroundTasks
from odradek.server.runtime.counters import TopicMetrics
from odradek.server.runtime.thread_pools import ThreadPools
from odradek.storage.directory import LogDirectory
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log

NOW_MS = 1_700_000_000_000
TOPIC, TOPIC_ID = "orders", bytes(range(16))
#: Rules under which a batch is written as it is received.
PLAIN = AppendRules(None, None, False, 1 << 62, 1 << 62, False, 1, 1_048_588, 1 << 30, 1 << 30)


class Hosted(HostedPartition):
    """A hosted partition that notes its failures and its proposals of ISRs."""

    def __init__(
        self,
        path: Path,
        local_id: int = 0,
        *,
        index: int = 0,
        topic: str = TOPIC,
        topic_id: bytes = TOPIC_ID,
        rules: AppendRules = PLAIN,
        pools: ThreadPools | None = None,
        log_class: type[Log] = Log,
        **config: Any,
    ) -> None:
        folder = path / f"{topic}-{index}"
        log = log_class.open(folder, topic, index, LogConfig(**config), now_ms=NOW_MS)
        role = ReplicaRole(local_id, log.log_end_offset, log.log_start_offset)
        self.failures: list[Exception] = []
        self.proposals: list[IsrProposal] = []
        directory = LogDirectory(path)  # without a lock
        super().__init__(topic_id, log, role, directory, rules, TopicMetrics(), pools or ThreadPools())
        self.on_failure = self.failures.append
        self.on_proposal = lambda replica, proposal: self.proposals.append(proposal)

    def lead(
        self,
        *others: int,
        isr: tuple[int, ...] | None = None,
        epoch: int = 1,
        now_ms: int = NOW_MS,
        partition_epoch: int = 0,
    ) -> bool:
        """Makes this replica the leader of itself and others."""
        replicas = (self.role.local_id, *others)
        return self.take_role(_image(replicas, isr or replicas, self.role.local_id, epoch, partition_epoch), now_ms)

    def follow_leader(
        self, leader: int, *, epoch: int = 1, isr: tuple[int, ...] | None = None, now_ms: int = NOW_MS
    ) -> bool:
        replicas = (leader, self.role.local_id) if leader >= 0 else (self.role.local_id,)
        return self.take_role(_image(replicas, isr or replicas, leader, epoch, epoch), now_ms)

    def offsets(self) -> tuple[int, int, int]:
        return self.log.log_start_offset, self.high_watermark, self.log_end_offset


class Disk:
    """The threads that wait for the disk: the work is done at once while `ready` is set."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.ready.set()
        self.runs = 0

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        await self.ready.wait()
        self.runs += 1
        return function(*arguments)


class NothingCompacted:
    """The offsets up to which logs are compacted, of a broker that compacts none."""

    def limit_clean_offset(self, hosted: HostedPartition, offset: int) -> bool:
        return False

    def clean_offsets_writer(self, path: str) -> Callable[[], None]:
        raise AssertionError(path)


def truncations(disk: Disk | None = None) -> Truncations:
    """Returns the truncations of a broker whose disk is ready at once."""
    threads: Any = disk or Disk()
    return Truncations(threads, NothingCompacted(), BackgroundTasks())


def _image(
    replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, epoch: int, partition_epoch: int
) -> PartitionImage:
    return PartitionImage(replicas, isr, leader, epoch, partition_epoch, (bytes(16),) * len(replicas))


def batch(count: int = 1, *, offset: int = 0, epoch: int = 1, value: bytes = b"v", **options: Any) -> bytearray:
    """Returns a batch of `count` records as a leader has written it."""
    records = [Record(offset + number, NOW_MS, b"k", value) for number in range(count)]
    return bytearray(encode_batch(records, base_offset=offset, leader_epoch=epoch, **options))


class Watching:
    """A request that waits for data. It notes its calls."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.sizes: list[int] = []
        self.changes = 0
        self._then = then

    def on_bytes_available(self, size: int) -> None:
        self.sizes.append(size)
        self._then()

    def on_state_changed(self) -> None:
        self.changes += 1
        self._then()


def joined(*batches: bytes | bytearray) -> bytes:
    return b"".join(map(bytes, batches))
