"""Records whose size a client decides: none is larger than `max.message.bytes` of `__consumer_offsets` allows.

Such a request gets UNKNOWN_SERVER_ERROR, as in Apache Kafka, and changes nothing.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from odradek.coordinator.groups.classic.group import ClassicGroup, ClassicGroupState
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups_config import GroupsConfig, StreamsGroupsConfig
from odradek.coordinator.result import GroupRequest, MetadataChanged
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.key_values import KeyValue
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.protocol.messages.streams_group_heartbeat import (
    HeartbeatSubtopology,
    HeartbeatTopology,
    StreamsGroupHeartbeatRequest,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from tests.coordinator.group_logs import LogRecord, load
from tests.coordinator.group_simulation import image_of
from tests.coordinator.harness.kinds import encode_record, new_shard

LIMIT = 2_000
CONFIG = GroupsConfig(
    initial_rebalance_delay_ms=0,
    consumer_assignment_interval_ms=0,
    share_assignment_interval_ms=0,
    max_record_bytes=LIMIT,
    streams=StreamsGroupsConfig(initial_rebalance_delay_ms=0, assignment_interval_ms=0),
)
IMAGE = image_of({"t": 2})
#: A key's type and the lengths of two ids, which the broker adds to the limit (GROUP_RECORD_OVERHEAD_BYTES).
KEY_FRAME_BYTES = 6
TOO_LARGE = ErrorCode.UNKNOWN_SERVER_ERROR
#: An assignment of no partitions, as a consumer's leader sends it.
NO_PARTITIONS = b"\0\1" + bytes(4) + b"\xff\xff\xff\xff"


def subscription(user_data: int) -> bytes:
    """Returns the metadata of a consumer that subscribes to `t`, with so many bytes of its own."""
    return b"\0\0\0\0\0\1\0\1t" + user_data.to_bytes(4, "big") + bytes(user_data)


def names(size: int) -> list[str]:
    """Returns names of topics that fill about `size` bytes of a record."""
    return [f"{number:048}" for number in range(size // 50)]


class Harness:
    """A shard whose records are checked as they are written."""

    def __init__(self) -> None:
        self.shard = new_shard(CONFIG)
        self.shard.handle(MetadataChanged(IMAGE), 0)
        self.now = 1_000
        self.requests = 0
        self.log: list[LogRecord] = []
        self.sizes: list[int] = []

    def ask(self, request: Any, version: int) -> Any:
        """Returns the response, or None while it waits."""
        self.requests += 1
        self.shard.handle(GroupRequest(self.requests, request, version, "c", "/h", f"{self.requests:032x}"), self.now)
        written = self._take()
        replies = self._replies(written)
        if replies and self.error(replies[0]) is TOO_LARGE:
            assert not written.records, "a rejected request changed the group"
        replies += self._replies(self.pass_time(0))
        return replies[0] if replies else None

    def _replies(self, output: Any) -> list[Any]:
        return [reply.response for reply in output.replies if reply.token == self.requests]

    def pass_time(self, ms: int) -> Any:
        self.now += ms
        self.shard.expire(self.now)
        return self._take()

    def _take(self) -> Any:
        output = self.shard.take()
        for record in output.records:
            key, value = encode_record(record)
            self.log.append((key, value))
            self.sizes.append(len(value or b"") + len(key) - KEY_FRAME_BYTES)
            assert self.sizes[-1] <= LIMIT, (type(record.key).__name__, self.sizes[-1])
        return output

    @staticmethod
    def error(response: Any) -> ErrorCode:
        return ErrorCode(getattr(response, "response", response).error_code)

    def join(
        self, member_id: str, sizes: list[int], instance_id: str | None = None, group_id: str = "g", version: int = 3
    ) -> Any:
        protocols = [JoinGroupRequestProtocol(f"p{i}", subscription(size)) for i, size in enumerate(sizes)]
        request = JoinGroupRequest(group_id, 10_000, 10_000, member_id, instance_id, "consumer", protocols)
        return self.ask(request, 5 if instance_id is not None else version)

    def assign(self, group_id: str = "g") -> Any:
        """The leader of a classic group sends its assignments."""
        group = self.shard.state.find(ClassicGroup, group_id)
        assert group is not None and group.leader_id is not None
        given = [SyncGroupRequestAssignment(member_id, NO_PARTITIONS) for member_id in group.members]
        instance_id = group.members[group.leader_id].group_instance_id
        return self.ask(
            SyncGroupRequest(group_id, group.generation_id, group.leader_id, instance_id, assignments=given), 3
        )

    def leave(self, member_id: str, group_id: str = "g") -> Any:
        return self.ask(LeaveGroupRequest(group_id, members=[MemberIdentity(member_id)]), 3)

    def consumer(
        self, member_id: str, size: int, epoch: int = 0, group_id: str = "g", instance_id: str | None = None
    ) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id,
            member_id,
            epoch,
            instance_id=instance_id,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=names(size),
            topic_partitions=[],
        )
        return self.ask(request, 1)

    def share(self, member_id: str, size: int, epoch: int = 0) -> Any:
        return self.ask(
            ShareGroupHeartbeatRequest("s", member_id, epoch, subscribed_topic_names=["t", *names(size)]), 1
        )

    def streams(self, member_id: str, topology_bytes: int, tag_bytes: int, group_id: str = "x") -> Any:
        topology = HeartbeatTopology(0, [HeartbeatSubtopology("0", source_topics=["t", *names(topology_bytes)])])
        request = StreamsGroupHeartbeatRequest(
            group_id,
            member_id,
            0,
            rebalance_timeout_ms=10_000,
            topology=topology,
            process_id="p",
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            client_tags=[KeyValue(name, "") for name in names(tag_bytes)],
        )
        return self.ask(request, 1)


def stable(harness: Harness, sizes: list[int], instance_id: str | None = None) -> str:
    """Makes a classic group of one member, and returns its id."""
    member_id: str = harness.join("", sizes, instance_id).member_id
    assert harness.assign().error_code == 0
    return member_id


def test_static_member_that_returns_with_too_large_metadata_leaves_the_previous_one() -> None:
    harness = Harness()
    member_id = stable(harness, [10], "i")
    before = len(harness.log)
    assert harness.join("", [LIMIT - 50], "i").error_code == TOO_LARGE
    group = harness.shard.state.find(ClassicGroup, "g")
    assert group is not None and group.state is ClassicGroupState.STABLE
    assert list(group.members) == [member_id] and len(harness.log) == before
    response = harness.join("", [20], "i")
    assert response.error_code == 0 and list(group.members) == [response.member_id] != [member_id]


def test_static_member_whose_metadata_fills_the_record_returns() -> None:
    harness = Harness()
    stable(harness, [0], "i")
    room = LIMIT - len("g") - len(harness.log[-1][1] or b"")
    assert harness.join("", [room + 1], "i").error_code == TOO_LARGE
    assert harness.join("", [room], "i").error_code == 0
    assert len(harness.log[-1][1] or b"") == LIMIT - len("g")


def test_static_member_with_another_protocol_starts_a_rebalance_whatever_its_size() -> None:
    harness = Harness()
    stable(harness, [0, 0], "i")
    group = harness.shard.state.find(ClassicGroup, "g")
    assert group is not None and group.protocol_name == "p0"
    protocols = [JoinGroupRequestProtocol("p1", subscription(0)), JoinGroupRequestProtocol("p0", subscription(1_950))]
    response = harness.ask(JoinGroupRequest("g", 10_000, 10_000, "", "i", "consumer", protocols), 5)
    assert response.error_code == 0 and response.protocol_name == "p1"


@pytest.mark.parametrize("kind", ["consumer", "share", "streams topology", "streams tags"])
def test_heartbeat_is_rejected_where_its_record_begins_to_be_too_large(kind: str) -> None:
    errors = []
    for count in range(LIMIT // 50 + 2):
        harness, size = Harness(), 50 * count
        if kind == "consumer":
            response = harness.consumer("a", size)
        elif kind == "share":
            response = harness.share("a", size)
        else:
            response = harness.streams("a", size if "topology" in kind else 0, size if "tags" in kind else 0)
        errors.append(harness.error(response))
        assert bool(harness.shard.state.groups) == (errors[-1] is ErrorCode.NONE)
        assert errors[-1] is ErrorCode.NONE or str(LIMIT) in getattr(response, "response", response).error_message
    first = errors.index(TOO_LARGE)
    assert first > LIMIT // 50 - 10, "much smaller ones fit"
    assert errors == [ErrorCode.NONE] * first + [TOO_LARGE] * (len(errors) - first)


def test_join_of_consumer_group_counts_all_protocols_of_the_member() -> None:
    harness = Harness()
    assert harness.error(harness.consumer("own", 0)) is ErrorCode.NONE
    assert harness.join("", [1_100, 1_100]).error_code == TOO_LARGE
    assert harness.join("", [1_100, 100]).error_code == 0
    group = harness.shard.state.find(ConsumerGroup, "g")
    assert group is not None and len(group.members) == 2


def test_classic_group_of_too_large_members_is_not_upgraded() -> None:
    harness = Harness()
    member_id = stable(harness, [1_100, 1_100])
    assert harness.error(harness.consumer("own", 0)) is ErrorCode.GROUP_ID_NOT_FOUND
    group = harness.shard.state.find(ClassicGroup, "g")
    assert group is not None and list(group.members) == [member_id]


def test_too_large_member_does_not_upgrade_a_group() -> None:
    harness = Harness()
    stable(harness, [10])
    assert harness.error(harness.consumer("own", LIMIT + 200)) is TOO_LARGE
    assert harness.shard.state.find(ClassicGroup, "g") is not None
    assert harness.error(harness.consumer("own", 50)) is ErrorCode.NONE
    assert harness.shard.state.find(ConsumerGroup, "g") is not None


def test_static_member_that_returns_with_a_longer_id_is_checked_too() -> None:
    harness = Harness()
    assert harness.error(harness.consumer("a", LIMIT - 200, instance_id="i")) is ErrorCode.NONE
    assert harness.error(harness.consumer("a", 0, epoch=-2, instance_id="i")) is ErrorCode.NONE
    assert harness.error(harness.consumer("a" * 500, LIMIT - 200, instance_id="i")) is TOO_LARGE
    group = harness.shard.state.find(ConsumerGroup, "g")
    assert group is not None and list(group.members) == ["a"]
    assert harness.error(harness.consumer("b", LIMIT - 200, instance_id="i")) is ErrorCode.NONE


@pytest.mark.parametrize(("size", "is_classic"), [(700, True), (1_100, False)])
def test_consumer_group_is_downgraded_where_the_record_can_hold_its_members(size: int, is_classic: bool) -> None:
    harness = Harness()
    assert harness.error(harness.consumer("own", 0)) is ErrorCode.NONE
    for _ in range(2):
        assert harness.join("", [size]).error_code == 0
    assert harness.error(harness.consumer("own", 0, epoch=-1)) is ErrorCode.NONE
    assert (harness.shard.state.find(ClassicGroup, "g") is not None) == is_classic


@pytest.mark.parametrize("seed", range(40))
def test_no_sequence_of_requests_writes_a_record_above_the_limit(seed: int) -> None:
    """The group `g` migrates between protocols meanwhile. Each record is checked as it is written."""
    rng, harness = random.Random(seed), Harness()

    def member() -> str:
        return rng.choice(["m", "m" * 300]) + str(rng.randrange(3))

    def size() -> int:
        return rng.choice([0, 10, rng.randrange(LIMIT), rng.randrange(LIMIT - 300, LIMIT + 100), 3 * LIMIT])

    for _ in range(80):
        step = rng.randrange(9)
        classic = harness.shard.state.find(ClassicGroup, "g")
        consumer = harness.shard.state.find(ConsumerGroup, "g")
        ids = list((classic or consumer).members) if classic is not None or consumer is not None else []  # type: ignore[union-attr]
        member_id = rng.choice(["", *ids])
        if step == 0:
            harness.join(member_id, [size() for _ in range(rng.randint(1, 3))], version=rng.choice([3, 4]))
        elif step == 1:
            harness.join("", [size() for _ in range(rng.randint(1, 2))], instance_id=f"i{rng.randrange(2)}")
        elif step == 2 and classic is not None and classic.state is ClassicGroupState.COMPLETING_REBALANCE:
            harness.assign()
        elif step == 3 and member_id:
            harness.leave(member_id)
        elif step == 4:
            harness.consumer(member(), size(), rng.choice([0, 0, -1, -2]), instance_id=rng.choice([None, "own"]))
        elif step == 5:
            harness.share(f"m{rng.randrange(3)}", size(), rng.choice([0, 0, -1]))
        elif step == 6:
            harness.streams(member(), size(), size(), group_id=member())
        else:
            harness.pass_time(rng.choice([10, 5_000, 50_000]))
    loaded = load(replace(CONFIG), harness.log, harness.now, IMAGE)
    assert loaded.state.groups.keys() == harness.shard.state.groups.keys()
