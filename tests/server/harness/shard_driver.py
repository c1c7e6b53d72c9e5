"""A shard driver on a partition with a controlled high watermark."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from odradek.coordinator.groups_config import GroupsConfig
from odradek.metadata.image import PartitionImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.schema import Message
from odradek.replication.replica_role import ReplicaRole
from odradek.server.coordinators.group_shard_driver import GroupShardDriver
from odradek.server.partitions.append_rules import AppendRules
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.runtime.counters import TopicMetrics
from odradek.server.runtime.thread_pools import ThreadPools
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log

LOCAL, OTHER = 1, 2


DEADLINE_S = 60


class Somebody(NamedTuple):
    client_id: str | None = "client"
    client_host: str = "/127.0.0.1"


def now_ms() -> int:
    return int(time.time() * 1000)


class Harness:
    """A partition of __consumer_offsets in a folder, and the driver of its shard."""

    def __init__(self, path: Path, **config: int) -> None:
        self.path = path
        self.config = GroupsConfig(**({"initial_rebalance_delay_ms": 0, "min_session_timeout_ms": 1} | config))
        self.failures: list[LogDirectoryFailure] = []
        self.partition = self.open()
        self.driver = self.drive()

    def open(self, isr: tuple[int, ...] = (LOCAL,), max_message_bytes: int = 1_048_588) -> HostedPartition:
        log = Log.open(self.path, "__consumer_offsets", 0, LogConfig(), now_ms=now_ms())
        role = ReplicaRole(LOCAL, log.log_end_offset, log.log_end_offset)
        role.apply(PartitionImage((LOCAL, OTHER), isr, LOCAL, 1, 1, ()), now_ms())
        rules = AppendRules(None, None, False, 1 << 62, 1 << 62, True, 1, max_message_bytes, 1 << 30, 1 << 30)
        directory: Any = None
        hosted = HostedPartition(bytes(16), log, role, directory, rules, TopicMetrics(), ThreadPools())
        hosted.on_failure = self.failures.append
        return hosted

    def drive(self, commit_timeout_ms: int = DEADLINE_S * 1000) -> GroupShardDriver:
        driver = GroupShardDriver(self.partition, self.config, now_ms, commit_timeout_ms=commit_timeout_ms)
        driver.load()
        return driver

    def submit(self, request: Message, version: int = 9) -> asyncio.Future[Any]:
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.driver.submit(request, version, Somebody(), response.set_result)
        return response

    async def ask(self, request: Message, version: int = 9) -> Any:
        return await asyncio.wait_for(self.submit(request, version), DEADLINE_S)

    async def joined(self, group_id: str = "g", session_timeout_ms: int = 10_000) -> Any:
        """Creates a stable group of one member. Returns the response to its JoinGroup."""
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"m")]
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        request.member_id = (await self.ask(request)).member_id
        response = await self.ask(request)
        assignments = [SyncGroupRequestAssignment(member_id=response.member_id, assignment=b"all")]
        sync = SyncGroupRequest(
            group_id=group_id,
            generation_id=response.generation_id,
            member_id=response.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        assert (await self.ask(sync)).assignment == b"all"
        return response

    async def fetched(self, group_id: str = "g") -> dict[tuple[str, int], int]:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
        (group,) = (await self.ask(request)).groups
        assert group.error_code == ErrorCode.NONE
        return {(t.name, p.partition_index): p.committed_offset for t in group.topics for p in t.partitions}

    def batches(self) -> int:
        log = self.partition.log
        data = log.read(log.log_start_offset, 1 << 30).bytes()
        return sum(1 for _ in iter_headers(data))


async def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, "it did not come about in time"
        await asyncio.sleep(0.005)
