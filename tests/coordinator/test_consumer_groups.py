"""Consumer groups request by request: the replies, and the exact records in Kafka's order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from immutables import Map
from odradek.coordinator.groups.consumer.regexes import RESOLUTION_INTERVAL_MS
from odradek.coordinator.groups.consumer.topics import metadata_hash
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest, MetadataChanged
from odradek.metadata.image import GROUP_RESOURCE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.assignments import TopicPartitions
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

from tests.coordinator.group_simulation import image_of
from tests.coordinator.harness.consumer_groups import given
from tests.coordinator.harness.kinds import new_shard

T = b"t".ljust(16, b".")
CONFIG = GroupsConfig(consumer_assignment_interval_ms=0, consumer_max_size=2)


class Harness:
    def __init__(self) -> None:
        self.shard = new_shard(CONFIG)
        self.now = 1_000
        self.shard.handle(MetadataChanged(image_of({"t": 4})), 0)

    def ask(self, request: Any, version: int = 1) -> tuple[Any, list[str]]:
        """Returns the reply, and the records as the names of their keys, with a minus for a tombstone."""
        self.shard.handle(GroupRequest(1, request, version, "c", "/h", "0" * 32), self.now)
        output = self.shard.take()
        ((_, response),) = output.replies
        names = [type(r.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key") for r in output.records]
        return response, ["-" * (r.value is None) + name for name, r in zip(names, output.records)]

    def beat(self, member: str, epoch: int, owned: list[int] | None = None, version: int = 1, **fields: Any) -> Any:
        if epoch == 0:
            fields = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"]} | fields
            owned = owned or []
        topics = None if owned is None else [TopicPartitions(topic_id=T, partitions=owned)] if owned else []
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member, member_epoch=epoch, topic_partitions=topics, **fields
        )
        return self.ask(request, version)

    def commit(self, member: str, epoch: int, index: int, version: int = 9) -> int:
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=5)
        topic = OffsetCommitRequestTopic(name="t", topic_id=T, partitions=[partition])
        request = OffsetCommitRequest(
            group_id="g", member_id=member, generation_id_or_member_epoch=epoch, topics=[topic]
        )
        response, _ = self.ask(request, version)
        return int(response.topics[0].partitions[0].error_code)


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_first_member_writes_kafkas_records_and_gets_all_partitions(harness: Harness) -> None:
    response, records = harness.beat("a", 0)
    assert records == [
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]
    assert (response.error_code, response.member_epoch, response.heartbeat_interval_ms) == (0, 2, 5_000)
    assert given(response) == [0, 1, 2, 3]
    assert harness.beat("a", 2, [0, 1, 2, 3]) == (harness.beat("a", 2, [0, 1, 2, 3])[0], [])


def test_partition_moves_after_its_owner_revokes_it(harness: Harness) -> None:
    harness.beat("a", 0)
    joined, _ = harness.beat("b", 0)
    assert (joined.member_epoch, given(joined)) == (3, [])
    asked, records = harness.beat("a", 2, [0, 1, 2, 3])
    assert (asked.member_epoch, given(asked), records) == (2, [0, 1], ["CurrentMemberAssignment"])
    assert given(harness.beat("b", 3)[0]) is None
    done, _ = harness.beat("a", 2, [0, 1])
    assert done.member_epoch == 3
    assert given(harness.beat("b", 3)[0]) == [2, 3]


def test_member_is_fenced_after_revocation_timeout(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.beat("b", 0)
    harness.beat("a", 2, [0, 1, 2, 3])
    harness.now += 30_000
    harness.beat("b", 3)
    harness.shard.expire(harness.now)
    first, *keys = [type(record.key).__name__ for record in harness.shard.take().records]
    assert first == "SilentMembersKey"
    assert keys == [
        "ConsumerGroupCurrentMemberAssignmentKey",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupMetadataKey",
    ]
    assert harness.beat("a", 2)[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert given(harness.beat("b", 3)[0]) == [0, 1, 2, 3]


def test_member_is_removed_after_session_timeout(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.now += 45_000
    harness.shard.expire(harness.now)
    assert not harness.shard.state.groups["g"].members  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("member", "epoch", "fields", "error"),
    [
        ("a", 3, {}, ErrorCode.FENCED_MEMBER_EPOCH),
        ("x", 2, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("x", -1, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 2, {}, ErrorCode.INVALID_REQUEST),
        ("a", -2, {}, ErrorCode.INVALID_REQUEST),
        ("a", -3, {}, ErrorCode.INVALID_REQUEST),
        ("a", 2, {"server_assignor": "x"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ("a", 2, {"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("b", 0, {"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ("b", 0, {"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ("a", 2, {"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_invalid_heartbeat_writes_no_records(
    harness: Harness, member: str, epoch: int, fields: dict[str, Any], error: ErrorCode
) -> None:
    harness.beat("a", 0)
    response, records = harness.beat(member, epoch, **fields)
    assert (response.error_code, records) == (error, [])


def test_join_fails_when_group_has_max_size(harness: Harness) -> None:
    for member, error in (("a", 0), ("b", 0), ("c", ErrorCode.GROUP_MAX_SIZE_REACHED)):
        assert harness.beat(member, 0)[0].error_code == error


def test_returning_static_member_gets_its_assignment_back(harness: Harness) -> None:
    harness.beat("a", 0, instance_id="i")
    assert harness.beat("b", 0, instance_id="i")[0].error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    left, records = harness.beat("a", -2, instance_id="i")
    assert (left.member_epoch, records) == (-2, ["CurrentMemberAssignment"])
    back, _ = harness.beat("b", 0, instance_id="i")
    assert (back.member_epoch, given(back)) == (2, [0, 1, 2, 3])
    assert harness.beat("a", 2, instance_id="i")[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_regex_subscription_includes_new_topics(harness: Harness) -> None:
    first, records = harness.beat("a", 0, subscribed_topic_names=[], subscribed_topic_regex="t.*")
    assert (first.member_epoch, given(first)) == (1, [])
    assert records == ["MemberMetadata", "CurrentMemberAssignment", "RegularExpression", "Metadata"]
    reported, _ = harness.beat("a", 1, [])
    assert (reported.member_epoch, given(reported)) == (2, [0, 1, 2, 3])
    harness.shard.handle(MetadataChanged(image_of({"t": 4, "t2": 1, "u": 1}), frozenset({"t2"})), 0)
    harness.now += RESOLUTION_INTERVAL_MS + 1
    assert harness.beat("a", 2, [0, 1, 2, 3])[1] == ["RegularExpression", "Metadata"]
    grown, _ = harness.beat("a", 2, [0, 1, 2, 3])
    assert (grown.member_epoch, given(grown)) == (3, [0, 1, 2, 3, 0])


def test_next_heartbeat_assigns_new_partitions(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.shard.handle(MetadataChanged(image_of({"t": 5}), frozenset({"t"})), 0)
    assert given(harness.beat("a", 2, [0, 1, 2, 3])[0]) == [0, 1, 2, 3, 4]


def test_commits_and_fetches_with_wrong_member_epoch_fail(harness: Harness) -> None:
    harness.beat("a", 0)
    assert harness.commit("a", 2, 0) == 0
    assert harness.commit("a", 3, 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert harness.commit("x", 2, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.commit("a", 2, 0, version=8) == ErrorCode.UNSUPPORTED_VERSION
    for epoch, error in ((2, 0), (1, ErrorCode.STALE_MEMBER_EPOCH)):
        asked = OffsetFetchRequestGroup(group_id="g", member_id="a", member_epoch=epoch, topics=None)
        assert harness.ask(OffsetFetchRequest(groups=[asked]), 9)[0].groups[0].error_code == error


def test_member_with_old_epoch_commits_only_kept_partitions(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.beat("b", 0)
    harness.beat("a", 2, [0, 1, 2, 3])
    harness.beat("a", 2, [0, 1])
    assert harness.commit("a", 2, 0) == 0
    assert harness.commit("a", 2, 2) == ErrorCode.STALE_MEMBER_EPOCH


def test_list_and_describe_return_group_as_consumer_group(harness: Harness) -> None:
    harness.beat("a", 0)
    (listed,) = harness.ask(ListGroupsRequest(types_filter=["Consumer"]))[0].groups
    assert (listed.group_id, listed.group_type, listed.group_state) == ("g", "consumer", "Stable")
    assert harness.ask(ListGroupsRequest(types_filter=["classic"]))[0].groups == []
    (described,) = harness.ask(ConsumerGroupDescribeRequest(group_ids=["g"]))[0].groups
    assert (described.group_epoch, described.assignment_epoch, described.assignor_name) == (2, 2, "uniform")
    assert described.members[0].assignment == described.members[0].target_assignment
    (classic,) = harness.ask(DescribeGroupsRequest(groups=["g"]), 6)[0].groups
    assert (classic.error_code, classic.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a classic group.",
    )


def test_only_empty_group_can_be_deleted(harness: Harness) -> None:
    harness.beat("a", 0)
    request = DeleteGroupsRequest(groups_names=["g"])
    assert harness.ask(request)[0].results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    harness.beat("a", -1)
    response, records = harness.ask(request)
    assert (response.results[0].error_code, records) == (
        0,
        ["-TargetAssignmentMetadata", "-PartitionMetadata", "-Metadata"],
    )
    assert "g" not in harness.shard.state.groups


def test_classic_join_succeeds_only_in_empty_consumer_group(harness: Harness) -> None:
    harness.beat("a", 0)
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    first = harness.ask(join, 5)[0]
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert (
        harness.ask(replace(join, member_id=first.member_id), 5)[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    harness.beat("a", -1)
    assert harness.ask(join, 5)[0].error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert "g" in harness.shard.state.groups


def test_metadata_hash_equals_kafkas() -> None:
    # org.apache.kafka.coordinator.group.Utils.computeGroupHash of 4.4 for the same topic.
    assert metadata_hash(image_of({"t": 4}), ["t"]) == 3609866707415828047


def test_group_config_is_clamped_to_broker_bounds(harness: Harness) -> None:
    for own, reported in (("7000", 7_000), ("1", 5_000), ("99999", 15_000)):
        configs = Map({(GROUP_RESOURCE, "g"): Map({"consumer.heartbeat.interval.ms": own})})
        image = image_of({"t": 4})._replace(configs=configs)
        harness.shard.handle(MetadataChanged(image), 0)
        assert harness.beat(f"m{own}", 0)[0].heartbeat_interval_ms == reported
        harness.beat(f"m{own}", -1)
