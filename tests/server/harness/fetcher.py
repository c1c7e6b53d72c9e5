"""A replica fetcher in simulated time, with the test as its leader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from odradek.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.schema import Message
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.config.endpoint import Endpoint
from odradek.server.replicas.fetcher import ReplicaFetcher
from odradek.server.replicas.followed_partition import FollowedPartition
from odradek.server.runtime.damage_counters import DamageCounters

from tests.server.harness.hosted import TOPIC_ID, Disk, Hosted, truncations
from tests.server.harness.nodes import node_of
from tests.server.harness.scripted_log import ScriptedLog
from tests.server.harness.virtual_time import loop_clock, turns

LEADER, FOLLOWER = 0, 3
LEADERS_ENDPOINT = Endpoint("PLAINTEXT", "leader", 9092)
NO_EPOCH = -1


class Quota:
    """A quota of replication that the test turns on."""

    def __init__(self) -> None:
        self.is_on = False
        self.throttled: set[int] = set()
        self.recorded: list[tuple[int, int]] = []

    def is_throttled(self, hosted: Hosted, follower: int) -> bool:
        assert follower == FOLLOWER
        return hosted.index in self.throttled

    def record(self, hosted: Hosted, size: int) -> None:
        self.recorded.append((hosted.index, size))


class Pauses:
    """Pauses that the test sets."""

    def __init__(self, pause_ms: float) -> None:
        self._pause_ms = pause_ms
        self.sent_ms: list[float] = []
        self.urgent: list[bool] = []

    def sent(self, now_ms: float) -> None:
        self.sent_ms.append(now_ms)

    def pause_ms(self, now_ms: float, *, is_urgent: bool, took_ms: float) -> float:
        self.urgent.append(is_urgent)
        return self._pause_ms


class Sent(NamedTuple):
    at_ms: int
    endpoint: Endpoint
    request: Any
    reply: Callable[[Any], None]
    purpose: str


class Harness:
    """A fetcher of broker 3 from broker 0. The test has its requests and replies to them."""

    def __init__(
        self,
        path: Path,
        count: int = 1,
        *,
        start_behind_remote: Callable[[FollowedPartition], object] | None = None,
        pauses: Pauses | None = None,
        epoch: int = 1,
        **properties: str,
    ) -> None:
        self.clock = loop_clock()
        self.sent: list[Sent] = []
        self.node_id = FOLLOWER
        self.leaders_endpoint: Endpoint | None = LEADERS_ENDPOINT
        self.quota = Quota()
        self.disk = Disk()
        self.truncations = truncations(self.disk)
        self.damage = DamageCounters()
        self.config = BrokerConfig({key.replace("_", "."): value for key, value in properties.items()})
        node, requests = node_of(self.config, clock=self.clock, damage=self.damage), self
        self.fetcher = ReplicaFetcher(node, LEADER, "fetcher-0", requests, self.quota, start_behind_remote, pauses)
        self.hosted = [Hosted(path, FOLLOWER, index=index, log_class=ScriptedLog) for index in range(count)]
        for hosted in self.hosted:
            hosted.follow_leader(LEADER, epoch=epoch)
            self.follow(hosted)

    def follow(self, hosted: Hosted) -> FollowedPartition:
        followed = FollowedPartition(hosted, self.clock.now_ms(), self.truncations)
        self.fetcher.follow(followed)
        return followed

    # ---- FetchRequests

    isolation_level = 0

    def topic_name(self, topic_id: bytes) -> str:
        return ""

    def topic_id(self, topic: FetchableTopicResponse) -> bytes:
        return topic.topic_id

    def endpoint(self, broker_id: int) -> Endpoint | None:
        assert broker_id == LEADER
        return self.leaders_endpoint

    def replica_state(self) -> ReplicaState:
        return ReplicaState(FOLLOWER, 77)

    def send(self, endpoint: Endpoint, request: Message, reply: Callable[[Any], None], *, purpose: str) -> None:
        self.sent.append(Sent(self.clock.now_ms(), endpoint, request, reply, purpose))

    # ---- the leader

    @property
    def last(self) -> FetchRequest:
        found: FetchRequest = self.sent[-1].request
        return found

    def asked(self) -> dict[int, int]:
        """Returns the partitions of the last request with their offsets."""
        return {one.partition: one.fetch_offset for topic in self.last.topics for one in topic.partitions}

    def forgotten(self) -> list[int]:
        return [index for topic in self.last.forgotten_topics_data for index in topic.partitions]

    async def respond(self, *data: PartitionData, session_id: int = 9, error: int = 0) -> None:
        topics = [FetchableTopicResponse("", TOPIC_ID, list(data))] if data else []
        self.sent[-1].reply(FetchResponse(0, error, session_id, topics))
        await turns()


def data(
    index: int = 0, records: bytes | None = None, *, error: int = 0, end: int = 0, start: int = 0
) -> PartitionData:
    return PartitionData(index, error, end, log_start_offset=start, records=records)  # type: ignore[arg-type]


def diverges(epoch: int, end_offset: int) -> PartitionData:
    return PartitionData(0, diverging_epoch=EpochEndOffset(epoch, end_offset))
