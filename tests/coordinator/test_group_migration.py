"""Groups change their protocol while they have members, as far as `group.consumer.migration.policy` lets them."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.coordinator.classic.group import ClassicGroup
from odradek.coordinator.consumer.group import ConsumerGroup
from odradek.coordinator.records import decode_record, encode_record
from odradek.coordinator.result import GroupRequest, GroupsConfig, MetadataChanged, Record
from odradek.coordinator.shard import GroupShard
from odradek.protocol.codec import encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitionsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from tests.coordinator.group_simulation import image_of

T = b"t".ljust(16, b".")
VERSION = b"\0\1"
UUID = "0" * 32


class Stand:
    def __init__(self, policy: str = "bidirectional") -> None:
        self.config = GroupsConfig(
            initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0, consumer_migration_policy=policy
        )
        self.log: list[Record] = []
        self.now = 1_000
        self.shard = self.loaded()

    def loaded(self) -> GroupShard:
        shard = GroupShard(self.config)
        shard.handle(MetadataChanged(image_of({"t": 2})), 0)
        for record in self.log:
            shard.replay(decode_record(*encode_record(record)))
        shard.loaded(self.now)
        return shard

    def ask(self, request: Any, version: int) -> Any:
        self.shard.handle(GroupRequest(1, request, version, "c", "/h", UUID), self.now)
        self.shard.expire(self.now)
        output = self.shard.take()
        self.log += output.records
        return output.replies[-1].response if output.replies else None

    def join(self, member_id: str = "", version: int = 3) -> Any:
        said = VERSION + encode(ConsumerProtocolSubscription(topics=["t"]), 1)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=said)]
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            protocol_type="consumer",
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
        """One classic member with everything, in generation 1."""
        member_id: str = self.join().member_id
        assert self.sync(member_id, 1, 0, 1).error_code == 0
        return member_id

    def beat(self, epoch: int, *owned: int) -> Any:
        topics = [TopicPartitionsRequest(topic_id=T, partitions=list(owned))] if owned else []
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="new",
            member_epoch=epoch,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=topics,
        )
        return self.ask(request, 1)

    @property
    def kind(self) -> str:
        return self.shard.state.groups["g"].kind


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [
        ("bidirectional", "consumer", "classic"),
        ("upgrade", "consumer", "consumer"),
        ("downgrade", "classic", None),
        ("disabled", "classic", None),
    ],
)
def test_a_group_goes_the_ways_that_it_may(policy: str, up: str, down: str | None) -> None:
    stand = Stand(policy)
    stand.classic()
    joined = stand.beat(0)
    assert (stand.kind, joined.error_code) == (up, 0 if up == "consumer" else ErrorCode.GROUP_ID_NOT_FOUND)
    if down is not None:
        stand.beat(-1)
        assert stand.kind == down


def test_a_classic_member_gives_back_by_a_rebalance_of_its_own() -> None:
    stand = Stand()
    old = stand.classic()
    joined = stand.beat(0)
    assert joined.assignment.topic_partitions == []
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=old)
    assert stand.ask(beat, 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    # It says that it owns nothing any more, as an eager member does.
    again = stand.join(old)
    assert (again.error_code, again.generation_id) == (0, joined.member_epoch)
    assert stand.sync(old, again.generation_id).assignment == VERSION + encode(
        ConsumerProtocolAssignment(
            assigned_partitions=[ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[0])]
        ),
        1,
    )
    assert [t.partitions for t in stand.beat(joined.member_epoch).assignment.topic_partitions] == [[1]]


def test_a_group_under_migration_is_loaded_as_it_was() -> None:
    stand = Stand()
    old = stand.classic()
    stand.beat(0)
    stand.join(old)
    before, after = stand.shard.state.find(ConsumerGroup, "g"), stand.loaded().state.find(ConsumerGroup, "g")
    assert before is not None and after is not None
    for name in ("epoch", "target_epoch", "members", "targets", "holders", "name_users", "regex_users"):
        assert getattr(before, name) == getattr(after, name), name
    stand.beat(-1)
    again = stand.loaded().state.find(ClassicGroup, "g")
    assert again is not None
    assert (list(again.members), again.generation_id) == ([old], 2)


def test_a_silent_new_member_leaves_a_classic_group_behind() -> None:
    stand = Stand()
    old = stand.classic()
    stand.beat(0)
    generation = stand.join(old).generation_id
    stand.sync(old, generation)
    for _ in range(5):
        assert stand.kind == "consumer"
        stand.now += 9_000
        stand.ask(HeartbeatRequest(group_id="g", generation_id=generation, member_id=old), 3)
    assert stand.kind == "classic"


def test_a_classic_member_that_does_not_join_again_in_time_is_gone() -> None:
    stand = Stand()
    old = stand.classic()
    stand.beat(0)
    for _ in range(3):
        stand.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id=old), 3)
        stand.now += 5_000
    stand.beat(2)
    assert list(stand.shard.state.groups["g"].members) == ["new"]  # type: ignore[attr-defined]
