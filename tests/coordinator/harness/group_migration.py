"""A group that migrates between protocols, without a broker."""

from __future__ import annotations

from typing import Any, TypeVar

from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest
from odradek.protocol.codec import encode
from odradek.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from odradek.protocol.messages.assignments import TopicPartitions
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from tests.coordinator.group_logs import LogRecord, load
from tests.coordinator.group_simulation import image_of
from tests.coordinator.harness.kinds import encode_record

T = b"t".ljust(16, b".")


VERSION = b"\0\1"


G = TypeVar("G")


class Harness:
    def __init__(self, policy: str = "bidirectional") -> None:
        self.config = GroupsConfig(
            initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0, consumer_migration_policy=policy
        )
        self.log: list[LogRecord] = []
        #: The same records in appended batches.
        self.batches: list[list[LogRecord]] = []
        self.now = 1_000
        self.asked = 0
        self.epochs: dict[str, int] = {}
        self.shard = self.loaded()

    def loaded(self) -> GroupShard:
        return load(self.config, self.log, self.now, image_of({"t": 2}))

    def ask(self, request: Any, version: int) -> Any:
        self.asked += 1
        self.shard.handle(GroupRequest(1, request, version, "c", "/h", f"{self.asked:032x}"), self.now)
        self.shard.expire(self.now)
        output = self.shard.take()
        self.batches.append([encode_record(record) for record in output.records])
        self.log += self.batches[-1]
        return output.replies[-1].response if output.replies else None

    def join(
        self,
        member_id: str = "",
        *owned: int,
        version: int = 3,
        instance_id: str | None = None,
        metadata: bytes | None = None,
        protocol_type: str = "consumer",
    ) -> Any:
        has = [ConsumerProtocolSubscriptionTopicPartition(topic="t", partitions=list(owned))] if owned else []
        said = VERSION + encode(ConsumerProtocolSubscription(topics=["t"], owned_partitions=has), 1)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=said if metadata is None else metadata)]
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=protocols,
        )
        return self.ask(request, version)

    def sync(self, member_id: str, generation: int, *partitions: int) -> Any:
        part = ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=list(partitions))
        given = VERSION + encode(ConsumerProtocolAssignment(assigned_partitions=[part]), 1)
        assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=given)] if partitions else []
        request = SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id, assignments=assignments)
        return self.ask(request, 3)

    def classic(self) -> str:
        """Adds a classic member with all partitions, in generation 1."""
        member_id: str = self.join().member_id
        assert self.sync(member_id, 1, 0, 1).error_code == 0
        return member_id

    def beat(
        self, epoch: int, *owned: int, member_id: str = "new", instance_id: str | None = None, regex: str | None = None
    ) -> Any:
        topics = [TopicPartitions(topic_id=T, partitions=list(owned))] if owned else []
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance_id,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"] if regex is None else [],
            subscribed_topic_regex=regex,
            topic_partitions=topics,
        )
        return self.ask(request, 1)

    def given(self, member_id: str) -> list[int]:
        """Returns the partitions in a heartbeat response of a new-protocol member; empty without an assignment."""
        response = self.beat(self.epochs.get(member_id, 0), member_id=member_id)
        assert response.error_code == 0, response
        self.epochs[member_id] = response.member_epoch
        assignment = response.assignment
        return (
            [] if assignment is None else [index for topic in assignment.topic_partitions for index in topic.partitions]
        )

    def group(self, cls: type[G]) -> G:
        found = self.shard.state.find(cls, "g")
        assert found is not None
        return found

    def join_too(self) -> str:
        """Adds another classic member, whose JoinGroup waits."""
        before = set(self.group(ClassicGroup).members)
        assert self.join() is None
        (member_id,) = self.group(ClassicGroup).members.keys() - before
        return member_id

    def reload(self) -> None:
        """Moves the group to another coordinator."""
        self.shard = self.loaded()

    @property
    def kind(self) -> str:
        return self.shard.state.groups["g"].kind
