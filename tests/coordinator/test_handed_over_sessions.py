"""Sessions across a move of the coordinator: those of silent members end when they would have, others start anew."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError
from kafka.structs import OffsetAndMetadata
from odradek.coordinator.groups import silence
from odradek.coordinator.groups.classic.group import MANY_MEMBERS
from odradek.coordinator.groups.silence import SilentMembersKey
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest, MetadataChanged, Record
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from compat_tests.oracle import ApacheKafka
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient
from tests.coordinator.group_simulation import image_of
from tests.coordinator.harness.kinds import decode_record, encode_record, new_shard

SESSION_MS = 45_000
CONFIG = GroupsConfig(initial_rebalance_delay_ms=0)
KINDS = ("classic", "consumer", "share")


class Coordinators:
    """Successive coordinators of one partition: `move` loads the next one from the records of those before."""

    def __init__(self, config: GroupsConfig = CONFIG) -> None:
        self.now, self.config = 100_000, config
        self.records: list[Record] = []
        self._begin()

    def _begin(self) -> None:
        self.shard = new_shard(self.config)
        self.shard.handle(MetadataChanged(image_of({"t": 4})), self.now)

    def ask(self, request: Any, version: int, client: str = "c") -> Any:
        self.shard.handle(GroupRequest(client, request, version, client, "/h", client), self.now)
        return self.take()

    def take(self) -> Any:
        output = self.shard.take()
        self.records += output.records
        return output.replies[-1].response if output.replies else None

    def passes(self, ms: int) -> None:
        end = self.now + ms
        while (at := self.shard.deadline()) is not None and at <= end:
            self.now = max(at, self.now)
            self.shard.expire(self.now)
            self.take()
        self.now = end

    def hand_over(self) -> None:
        self.shard.hand_over(self.now)
        self.take()

    def move(self) -> None:
        self._begin()
        for record in self.records:
            self.shard.replay(decode_record(*encode_record(record)))
        self.shard.loaded(self.now)

    def join(self, kind: str, *members: str) -> None:
        if kind == "classic":
            for member in members:
                protocols = [JoinGroupRequestProtocol("range", b"\0\0\0\0\0\0\xff\xff\xff\xff")]
                self.ask(JoinGroupRequest("g", SESSION_MS, 60_000, "", None, "consumer", protocols), 3, member)
            self.passes(0)
            ids = [f"{member}-{member}" for member in members]
            shares = [SyncGroupRequestAssignment(one, b"p") for one in ids]
            for member_id in reversed(ids):
                self.ask(SyncGroupRequest("g", 1, member_id, None, "consumer", "range", shares), 5)
        else:
            for member in members:
                self.beat(kind, member, 0)

    def beat(self, kind: str, member: str, epoch: int | None = None) -> None:
        if kind == "classic":
            self.ask(HeartbeatRequest("g", 1, f"{member}-{member}"), 4)
        elif kind == "consumer":
            fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
            joins = fields if epoch == 0 else {}
            known = self.shard.state.groups["g"].members[member].epoch if epoch is None else epoch  # type: ignore[attr-defined]
            self.ask(ConsumerGroupHeartbeatRequest("g", member, known, **joins), 1)
        else:
            known = self.shard.state.groups["g"].members[member].epoch if epoch is None else epoch  # type: ignore[attr-defined]
            topics = ["t"] if epoch == 0 else None
            self.ask(ShareGroupHeartbeatRequest("g", member, known, None, topics), 1)

    def members(self) -> set[str]:
        return {member_id[0] for member_id in self.shard.state.groups["g"].members}  # type: ignore[attr-defined]


def beats_alone(coordinators: Coordinators, kind: str, member: str, ms: int) -> None:
    for _ in range(ms // 5_000):
        coordinators.passes(5_000)
        coordinators.beat(kind, member)


@pytest.mark.parametrize("kind", KINDS)
def test_dead_member_is_removed_at_the_end_of_its_session_though_the_coordinator_moves_twice(kind: str) -> None:
    coordinators = Coordinators()
    coordinators.join(kind, "a", "b")
    for _ in range(2):
        beats_alone(coordinators, kind, "a", 15_000)
        coordinators.hand_over()
        coordinators.move()
    assert coordinators.members() == {"a", "b"}
    beats_alone(coordinators, kind, "a", 10_000)
    assert coordinators.members() == {"a", "b"}, "its session is not over"
    coordinators.passes(5_000)
    assert coordinators.members() == {"a"}, "a whole session again"


@pytest.mark.parametrize("kind", KINDS)
def test_unplanned_move_does_not_restart_the_session_of_a_member_that_is_silent_for_long(kind: str) -> None:
    coordinators = Coordinators()
    coordinators.join(kind, "a", "b")
    beats_alone(coordinators, kind, "a", 30_000)
    coordinators.move()
    beats_alone(coordinators, kind, "a", 15_000)
    assert coordinators.members() == {"a"}


@pytest.mark.parametrize("kind", KINDS)
def test_member_whose_session_ends_at_the_move_has_time_to_find_the_coordinator(kind: str) -> None:
    coordinators = Coordinators()
    coordinators.join(kind, "a", "b")
    beats_alone(coordinators, kind, "a", 40_000)
    coordinators.hand_over()
    coordinators.now += 20_000  # without a coordinator
    coordinators.move()
    coordinators.passes(SESSION_MS // silence.GRACE_PART - 1)
    assert coordinators.members() == {"a", "b"}
    coordinators.beat(kind, "b")
    coordinators.passes(20_000)
    assert "b" in coordinators.members(), "it is heard again"


@pytest.mark.parametrize("kind", KINDS)
def test_members_with_heartbeats_cost_no_record_and_get_whole_sessions(kind: str) -> None:
    coordinators = Coordinators()
    coordinators.join(kind, "a", "b")
    before = len(coordinators.records)
    for _ in range(20):
        coordinators.passes(3_000)
        coordinators.beat(kind, "a")
        coordinators.beat(kind, "b")
    coordinators.hand_over()
    assert not [one for one in coordinators.records[before:] if isinstance(one.key, SilentMembersKey)]
    coordinators.move()
    coordinators.passes(SESSION_MS - 1)
    assert coordinators.members() == {"a", "b"}


def test_record_of_silent_members_is_deleted_when_they_are_heard_or_gone() -> None:
    coordinators = Coordinators()
    coordinators.join("consumer", "a", "b")
    beats_alone(coordinators, "consumer", "a", 30_000)
    assert [member for _, member in coordinators.shard.state.silent] == ["b"]
    beats_alone(coordinators, "consumer", "a", 25_000)
    assert coordinators.shard.state.silent == {}
    (*_, last) = [one for one in coordinators.records if isinstance(one.key, SilentMembersKey)]
    assert last.value is None


def test_record_of_silent_members_fits_in_a_batch() -> None:
    coordinators = Coordinators(replace(CONFIG, max_record_bytes=400))
    coordinators.join("consumer", *"abcdefghijklmnopqrstuvwxyz")
    coordinators.passes(30_000)
    (record,) = [one for one in coordinators.records if isinstance(one.key, SilentMembersKey)]
    assert len(encode_record(record)[1] or b"") <= 400
    assert coordinators.shard.state.silent


def test_departures_of_a_large_group_are_written_together() -> None:
    coordinators = Coordinators()
    names = [chr(0x100 + number) for number in range(3 * MANY_MEMBERS)]
    coordinators.join("classic", *names)
    before = len(coordinators.records)
    for name in names[: MANY_MEMBERS // 2]:
        coordinators.ask(LeaveGroupRequest(group_id="g", members=[MemberIdentity(f"{name}-{name}", None)]), 5)
    assert len(coordinators.records) == before
    coordinators.passes(1_000)
    assert len(coordinators.records) == before + 1
    coordinators.move()
    coordinators.passes(0)
    assert coordinators.members() == set(names[MANY_MEMBERS // 2 :])


@pytest.mark.oracle
@pytest.mark.usefixtures("java_tools", "processes")
def test_apache_kafka_loads_a_log_with_departed_and_silent_members(tmp_path: Path) -> None:
    coordinators = Coordinators()
    coordinators.join("classic", "a", "b")
    coordinators.ask(LeaveGroupRequest(group_id="g", members=[MemberIdentity("b-b", None)]), 5)
    coordinators.passes(20_000)
    coordinators.hand_over()
    written = [encode_record(record) for record in coordinators.records]
    silent, _ = encode_record(Record(SilentMembersKey(), None))
    assert any(key == silent for key, _ in written)

    def commit(group: str) -> None:
        with KafkaConsumer(bootstrap_servers=kafka.bootstrap, group_id=group, enable_auto_commit=False) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            consumer.commit({TopicPartition("t", 0): OffsetAndMetadata(3, "", -1)})

    with ApacheKafka(tmp_path, {"offsets.topic.num.partitions": "1"}) as kafka:
        with KafkaProducer(bootstrap_servers=kafka.bootstrap) as user:
            user.send("t", b"v", partition=0).get(timeout=30)
        commit("before")
        admin_client = Producer({"bootstrap.servers": kafka.bootstrap, "client.id": "__admin_client"})
        for key, value in written:
            admin_client.produce("__consumer_offsets", value, key, 0)
        assert admin_client.flush(30) == 0
        commit("after")
        kafka.kill()
        kafka.start()
        with KafkaAdminClient(bootstrap_servers=kafka.bootstrap) as admin:

            def committed(group: str) -> object:
                """None while the coordinator is not there yet, or loads."""
                with suppress(NotCoordinatorError, CoordinatorLoadInProgressError, CoordinatorNotAvailableError):
                    return admin.list_group_offsets({group: None})[group][TopicPartition("t", 0)].offset
                return None

            for group in ("before", "after"):
                found = eventually(lambda group=group: committed(group), what="the offset is loaded")
                assert found == 3
        with WireClient(kafka.bootstrap, timeout=30) as client:

            def members() -> set[str]:
                (group,) = client.call(DescribeGroupsRequest(groups=["g"]), 5).groups
                return {member.member_id for member in group.members}

            eventually(lambda: members() == {"a-a"}, what="the departed member is removed, the other is there")
    assert "Unknown record type 20292" in kafka.log_file.read_text() + kafka.output_file.read_text()
