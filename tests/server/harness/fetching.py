"""Partitions that a broker leads, with its fetch sessions, and no broker around them: the test sends each Fetch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.records.record import Record, encode_batch
from odradek.server.fetch import fetch_opening
from odradek.server.fetch.fetch import Fetch
from odradek.server.fetch.fetch_context import FetchContext
from odradek.server.fetch.fetch_path import FetchPath
from odradek.server.fetch.fetch_sessions import FetchSessions
from odradek.server.fetch.follower_fetch import FollowerFetch
from odradek.server.partitions.parked_fetch import FetchWaits
from odradek.server.partitions.parked_requests import Deadlines, Wakeups
from odradek.server.replicas.fetcher import ReplicaFetcher
from odradek.server.replicas.isr_changes import IsrChanges
from odradek.server.replicas.replication import Replication
from odradek.server.replicas.replication_quota import ReplicationQuotas
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.node import Node

from tests.server.harness.held_reads import HeldReads
from tests.server.harness.hosted import NOW_MS, TOPIC, TOPIC_ID, truncations
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection
from tests.server.harness.noted_fetches import NotedFetches
from tests.server.harness.noted_forwarding import NotedForwarding
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.noted_scrubber import NotedScrubber
from tests.server.harness.scripted_leaders import ScriptedLeaders
from tests.server.harness.scripted_quota import ScriptedQuota
from tests.server.harness.scripted_selector import ScriptedSelector
from tests.server.harness.stepped_turns import SteppedTurns
from tests.server.harness.virtual_time import loop_clock

#: The follower has the id 0, which is none of the sentinels.
OWN, FOLLOWER, THIRD = 1, 0, 3
VERSION = 17
LAG_MS = 30_000


class Replicas:
    """The parts for replicas that fetches use."""

    def __init__(self, node: Node, quota: ScriptedQuota) -> None:
        self.scrubber = NotedScrubber()
        self.leaders = ScriptedLeaders()
        self.replication = Lazy(lambda: self._replication(node, quota))

    @staticmethod
    def _replication(node: Node, quota: ScriptedQuota) -> Replication:
        changes = IsrChanges(OWN, lambda: 1, node.clock, Lazy(NotedForwarding))
        parts = ReplicationQuotas(quota, quota), _no_fetcher, truncations()
        return Replication(node.config, node.clock, [], changes, *parts)


def _no_fetcher(leader: int, purpose: str) -> ReplicaFetcher:
    raise AssertionError(f"the broker leads all partitions: {purpose}")


class Harness:
    """A broker with partitions of one topic that it leads. Each fetch goes through its sessions, as those of clients do."""

    def __init__(
        self, path: Path, count: int = 1, *, followers: tuple[int, ...] = (), max_bytes: int = 1 << 20
    ) -> None:
        self.hosted = [NotedFetches(path, OWN, index=index) for index in range(count)]
        for hosted in self.hosted:
            hosted.lead(*followers, now_ms=int(loop_clock().now_ms()))
        loop = asyncio.get_running_loop()
        reads = HeldReads()
        self.disk = reads.reads
        self.waits = FetchWaits(Deadlines(loop), Wakeups(loop), reads)
        self.sessions = FetchSessions(10)
        self.quota = ScriptedQuota()
        self.clock = loop_clock()
        node = node_of(clock=self.clock)
        replicas = Replicas(node, self.quota)
        self.scrubber = replicas.scrubber
        self.partitions = NotedPartitions(self.hosted)
        self.path = FetchPath(node, self.waits, self.partitions, replicas, self.sessions)
        self.path.selector = self.selector = ScriptedSelector(node)
        self.path.max_bytes = max_bytes
        self.plain_fetch: type[Fetch] = Fetch
        self.turns = SteppedTurns()
        self.connection = NotedConnection(node, turns=self.turns)
        self.calls = NotedCalls(self.connection)
        self.responses: list[FetchResponse] = self.calls.responses

    def fetch(
        self,
        *asked: FetchPartition,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        isolation: int = 0,
        replica: int = -1,
        version: int = VERSION,
        session: tuple[int, int] = (0, -1),
        rack: str = "",
        is_large: bool = False,
    ) -> None:
        request = FetchRequest(
            replica_id=replica,
            replica_state=ReplicaState(replica, 5),
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_id=session[0],
            session_epoch=session[1],
            topics=[FetchTopic(TOPIC, TOPIC_ID, list(asked))] if asked else [],
            rack_id=rack,
        )
        context = self.sessions.open_at_once(request, version, self.clock.now_ms(), self.connection)
        assert isinstance(context, FetchContext), context
        call = self.calls.call(request, version)
        if is_large:
            fetch_opening.fetch(self.path, call, context, is_follower=replica >= 0)
            return
        response = (FollowerFetch if replica >= 0 else self.plain_fetch)(self.path, call, context).start()
        if response is not None:
            self.responses.append(response)

    def data(self, number: int = -1) -> list[PartitionData]:
        response = self.responses[number]
        assert not response.error_code
        return [one for topic in response.responses for one in topic.partitions]

    def sizes(self, number: int = -1) -> dict[int, int]:
        return {one.partition_index: len(one.records or b"") for one in self.data(number)}


def ask(
    index: int = 0, offset: int = 0, max_bytes: int = 1 << 20, epoch: int = -1, last_epoch: int = -1
) -> FetchPartition:
    return FetchPartition(index, epoch, offset, last_epoch, -1, max_bytes)


def produced(count: int = 1, size: int = 1, **options: Any) -> bytearray:
    return bytearray(encode_batch([Record(number, NOW_MS, b"k", b"v" * size) for number in range(count)], **options))


ONE = len(produced())
