"""Share groups request by request: each check of a heartbeat, the assignment, and the requests to the persister."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.coordinator.groups.share.assignor import ShareSubscriber, simple
from odradek.coordinator.groups.share.group import ShareGroup
from odradek.coordinator.groups.share.persister_requests import (
    DeletionOfGroups,
    InitializedPartitions,
    StatesDeleted,
    StatesInitialized,
)
from odradek.coordinator.groups.share.validation import MAX_MEMBER_ID_LENGTH
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest, MetadataChanged
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

from tests.coordinator.group_simulation import image_of
from tests.coordinator.harness.kinds import new_shard

T, U = (name.ljust(16, b".") for name in (b"t", b"u"))
RETRY_MS = 30_000
SESSION_MS = 45_000
COUNTS = {"t": 3, "u": 2}


class Harness:
    def __init__(self, **config: Any) -> None:
        defaults = {
            "share_assignment_interval_ms": 0,
            "share_initialize_retry_interval_ms": RETRY_MS,
            "share_session_timeout_ms": SESSION_MS,
        }
        self.shard = new_shard(GroupsConfig(**(defaults | config)))
        self.now = 1_000_000
        self.topics(COUNTS)

    def topics(self, counts: dict[str, int]) -> None:
        self.shard.handle(MetadataChanged(image_of(counts), frozenset({"t", "u"})), self.now)

    @property
    def group(self) -> ShareGroup:
        group = self.shard.state.find(ShareGroup, "g")
        assert group is not None
        return group

    def ask(self, request: Any, version: int = 1) -> tuple[Any, list[str]]:
        self.shard.handle(GroupRequest(1, request, version, "c", "/h", "0" * 32), self.now)
        output = self.shard.take()
        ((_, response),) = output.replies
        names = [type(one.key).__name__.removeprefix("ShareGroup").removesuffix("Key") for one in output.records]
        return response, ["-" * (r.value is None) + name for name, r in zip(names, output.records, strict=True)]

    def beat(self, member: str, epoch: int, names: list[str] | None = None, **fields: Any) -> tuple[Any, list[str]]:
        """Returns the response, and the records."""
        subscribed = ["t"] if names is None and epoch == 0 else names
        group = fields.pop("group_id", "g")
        followed, records = self.ask(
            ShareGroupHeartbeatRequest(group, member, epoch, subscribed_topic_names=subscribed, **fields)
        )
        self.asked = followed.request
        return followed.response, records

    def wanted(self) -> dict[bytes, list[int]] | None:
        """Returns the partitions that the last heartbeat requests from the persister."""
        if self.asked is None:
            return None
        return {topic.topic_id: [one.partition for one in topic.partitions] for topic in self.asked.topics}

    def initialize(self, partitions: dict[bytes, set[int]], *, has_failed: bool = False) -> list[str]:
        done = {topic_id: frozenset(indexes) for topic_id, indexes in partitions.items()}
        return self.ask(StatesInitialized("g", done, has_failed))[1]


@pytest.fixture
def harness() -> Harness:
    return Harness()


def given(response: Any) -> dict[bytes, list[int]] | None:
    if response.assignment is None:
        return None
    return {topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions}


# ---- checks


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"member": ""}, ErrorCode.INVALID_REQUEST, None),
        ({"member": "a" * MAX_MEMBER_ID_LENGTH}, ErrorCode.NONE, None),
        ({"member": "a" * (MAX_MEMBER_ID_LENGTH + 1)}, ErrorCode.INVALID_REQUEST, None),
        ({"member": " "}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ({"rack_id": " "}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        ({"rack_id": "r"}, ErrorCode.NONE, None),
        ({"names": []}, ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request."),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
        ({"epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND, "Share group g not found."),
    ],
)
def test_heartbeat_is_checked_before_anything_is_written(
    harness: Harness, fields: dict[str, Any], error: ErrorCode, words: str | None
) -> None:
    response, records = harness.beat(fields.pop("member", "a"), fields.pop("epoch", 0), **fields)
    assert (response.error_code, response.error_message) == (error, words)
    assert bool(records) == (error is ErrorCode.NONE)


def test_group_of_another_kind_is_named() -> None:
    harness = Harness(consumer_assignment_interval_ms=0)
    request = ConsumerGroupHeartbeatRequest(
        "g", "x", 0, rebalance_timeout_ms=9, subscribed_topic_names=["t"], topic_partitions=[]
    )
    harness.ask(request)
    for epoch in (0, 1, -1):
        response, _ = harness.beat("a", epoch)
        assert (response.error_code, response.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            "Group g is not a share group.",
        )
    followed, _ = harness.ask(AlterShareGroupOffsetsRequest("g", []))
    assert followed.response.error_message == "Group g is not a share group."


def test_group_of_full_size_takes_its_own_members_only() -> None:
    harness = Harness(share_max_size=2)
    for member, error in (("a", 0), ("b", 0), ("c", ErrorCode.GROUP_MAX_SIZE_REACHED), ("a", 0)):
        assert harness.beat(member, 0)[0].error_code == error


def test_epoch_is_the_members_or_the_one_before_it(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.beat("b", 0)
    assert harness.beat("a", 2)[0].member_epoch == 3
    for epoch, error in (
        (3, 0),
        (2, 0),
        (0, 0),
        (1, ErrorCode.FENCED_MEMBER_EPOCH),
        (4, ErrorCode.FENCED_MEMBER_EPOCH),
    ):
        assert harness.beat("a", epoch)[0].error_code == error
    assert "smaller member epoch (1)" in harness.beat("a", 1)[0].error_message
    assert "previous member epoch (2)" in harness.beat("a", 1)[0].error_message
    assert "greater member epoch (4)" in harness.beat("a", 4)[0].error_message
    assert harness.beat("x", 3)[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat("x", -1)[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


# ---- members


def test_member_keeps_what_its_heartbeats_omit(harness: Harness) -> None:
    harness.beat("a", 0, ["u", "t", "t"], rack_id="r")
    metadata = harness.group.members["a"].metadata
    assert (metadata.subscribed_topic_names, metadata.rack_id) == (["t", "u"], "r")
    assert (metadata.client_id, metadata.client_host) == ("c", "/h")
    _, records = harness.beat("a", 2)
    assert "MemberMetadata" not in records and harness.group.members["a"].metadata == metadata
    epoch = harness.group.epoch
    _, records = harness.beat("a", 2, rack_id="s")
    assert records == ["MemberMetadata"] and harness.group.epoch == epoch
    assert harness.group.members["a"].metadata.rack_id == "s"
    assert "Metadata" in harness.beat("a", 2, ["t"])[1] and harness.group.epoch == epoch + 1


def test_session_lasts_from_the_last_heartbeat(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.beat("b", 0)
    harness.now += SESSION_MS - 1
    harness.shard.expire(harness.now)
    harness.beat("a", 2)
    harness.now += 1
    harness.shard.expire(harness.now)
    assert set(harness.group.members) == {"a"}
    harness.now += SESSION_MS - 2
    harness.shard.expire(harness.now)
    assert set(harness.group.members) == {"a"}
    harness.now += 1
    harness.shard.expire(harness.now)
    assert not harness.group.members and harness.group.state.value == "Empty"


# ---- partitions and the persister


def test_partitions_are_assigned_once_the_persister_has_initialized_them(harness: Harness) -> None:
    response, records = harness.beat("a", 0)
    assert given(response) == {} and harness.wanted() == {T: [0, 1, 2]}
    assert [one.start_offset for one in harness.asked.topics[0].partitions] == [-1] * 3
    assert records[-1] == "StatePartitionMetadata"
    assert harness.beat("a", 2)[1] == [] and harness.wanted() is None, "it was asked a moment ago"
    assert harness.initialize({T: {0, 1}}) == ["StatePartitionMetadata"]
    response, _ = harness.beat("a", 2)
    assert (given(response), response.member_epoch) == ({T: [0, 1]}, 3)
    response, records = harness.beat("a", 3)
    assert (given(response), records) == (None, [])
    assert given(harness.beat("a", 3, ["t"])[0]) == {T: [0, 1]}, "a full heartbeat gets them again"
    assert given(harness.beat("a", 0, ["t"])[0]) == {T: [0, 1]}
    known, _ = harness.ask(InitializedPartitions("g"))
    assert (known.error, known.partitions) == (0, {T: {0, 1}})
    assert harness.ask(InitializedPartitions("other"))[0].partitions == {}


@pytest.mark.parametrize(("waited_ms", "is_asked"), [(RETRY_MS - 1, False), (RETRY_MS, True)])
def test_request_to_the_persister_is_repeated_after_a_while(harness: Harness, waited_ms: int, is_asked: bool) -> None:
    harness.beat("a", 0)
    harness.now += waited_ms
    harness.beat("a", 2)
    assert harness.wanted() == ({T: [0, 1, 2]} if is_asked else None)


def test_failed_initialization_is_requested_again_with_the_next_heartbeat(harness: Harness) -> None:
    harness.beat("a", 0)
    assert harness.initialize({T: {0, 1}}, has_failed=True) == ["StatePartitionMetadata"]
    harness.beat("a", 2)
    assert harness.wanted() == {T: [0, 1]}, "that of partition 2 is on its way"
    assert harness.initialize({}) == [] and harness.ask(StatesInitialized("none", {T: frozenset({0})}))[1] == []


def test_new_partitions_are_initialized_and_deleted_topics_forgotten(harness: Harness) -> None:
    harness.beat("a", 0, ["t", "u"])
    harness.initialize({T: {0, 1, 2}, U: {0, 1}})
    harness.beat("a", 2)
    harness.topics({"t": 4, "u": 2})
    harness.shard.take()
    harness.beat("a", 3)
    assert harness.wanted() == {T: [3]}
    harness.topics({"t": 4})
    assert [type(one.key).__name__ for one in harness.shard.take().records] == ["ShareGroupStatePartitionMetadataKey"]
    states = harness.group.states
    assert states is not None and set(states.initialized) == {T} and states.initializing[T].partitions == {3}
    response, _ = harness.beat("a", 4)
    assert given(response) == {T: [0, 1, 2]}
    harness.topics({"t": 4})
    assert harness.shard.take().records == []


def test_unsubscribed_topic_goes_at_once(harness: Harness) -> None:
    harness = Harness(share_assignment_interval_ms=60_000)
    harness.beat("a", 0, ["t", "u"])
    harness.initialize({T: {0}, U: {0}})
    harness.now += 60_000
    assert given(harness.beat("a", 2)[0]) == {T: [0], U: [0]}
    response, records = harness.beat("a", 3, ["u"])
    assert given(response) == {U: [0]} and response.member_epoch == 3 and "CurrentMemberAssignment" in records


# ---- the assignment


def members(*subscribed: tuple[bytes, ...], **current: dict[bytes, frozenset[int]]) -> dict[str, ShareSubscriber]:
    return {
        name: ShareSubscriber(frozenset(topics), current.get(name, {}))
        for name, topics in zip("abcdef", subscribed, strict=False)
    }


def sizes(found: dict[str, dict[bytes, frozenset[int]]]) -> list[int]:
    return [sum(map(len, of_member.values())) for of_member in found.values()]


@pytest.mark.parametrize(
    ("count", "partitions", "expected"),
    [
        (1, 3, [3]),
        (2, 3, [2, 1]),
        (3, 3, [1, 1, 1]),
        (4, 3, [2, 1, 2, 1]),
        (6, 3, [1] * 6),
        (2, 1, [1, 1]),
        (2, 0, [0, 0]),
    ],
)
def test_partitions_are_shared_evenly(count: int, partitions: int, expected: list[int]) -> None:
    found = simple(members(*[(T,)] * count), {T: frozenset(range(partitions))})
    assert sorted(sizes(found)) == sorted(expected)
    if partitions:
        shares = [sum(index in of.get(T, ()) for of in found.values()) for index in range(partitions)]
        assert min(shares) >= 1 and max(shares) - min(shares) == 0


def test_member_keeps_its_partitions_as_far_as_the_balance_permits() -> None:
    all_of = frozenset(range(4))
    found = simple(members((T,), (T,), b={T: frozenset({3})}), {T: all_of})
    assert 3 in found["b"][T] and sizes(found) == [2, 2] and not found["a"][T] & found["b"][T]
    found = simple(members((T,), (T,), a={T: all_of}), {T: all_of})
    assert sizes(found) == [2, 2]


def test_each_topic_is_shared_by_its_subscribers() -> None:
    found = simple(members((T,), (T, U), (U,)), {T: frozenset({0, 1}), U: frozenset({0, 1})})
    assert found["a"].keys() == {T} and found["c"].keys() == {U}
    for topic_id in (T, U):
        assert sorted(index for of in found.values() for index in of.get(topic_id, ())) == [0, 1]
    assert simple({}, {T: frozenset({0})}) == {}
    assert simple(members((U,)), {T: frozenset({0})}) == {"a": {}}


# ---- admin requests


def alter(harness: Harness, *topics: tuple[str, dict[int, int]], group: str = "g") -> tuple[Any, Any, list[str]]:
    request = AlterShareGroupOffsetsRequest(
        group,
        [
            AlterShareGroupOffsetsRequestTopic(
                name, [AlterShareGroupOffsetsRequestPartition(index, offset) for index, offset in of.items()]
            )
            for name, of in topics
        ],
    )
    followed, records = harness.ask(request, 0)
    return followed.response, followed.request, records


def errors(response: Any) -> dict[str, dict[int, int]]:
    return {
        topic.topic_name: {one.partition_index: one.error_code for one in topic.partitions}
        for topic in response.responses
    }


UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_of_a_group_without_members_are_altered(harness: Harness) -> None:
    response, request, records = alter(harness, ("t", {0: 7, 2: 9, 3: 1}), ("none", {0: 5}))
    assert errors(response) == {"t": {0: 0, 2: 0, 3: UNKNOWN}, "none": {0: UNKNOWN}}
    assert [topic.topic_id for topic in response.responses] == [T, bytes(16)]
    assert {one.partition: one.start_offset for one in request.topics[0].partitions} == {0: 7, 2: 9}
    assert {one.state_epoch for one in request.topics[0].partitions} == {harness.group.epoch}
    assert records == ["StatePartitionMetadata"]
    states = harness.group.states
    assert states is not None and states.initializing[T].partitions == {0, 2}
    harness.beat("a", 0)
    assert harness.wanted() == {T: [1]}, "a member's heartbeat would initialize the others with the reset offset"


def test_alteration_without_an_existing_partition_asks_the_persister_nothing(harness: Harness) -> None:
    response, request, records = alter(harness, ("none", {0: 5}))
    assert (errors(response), request, records) == ({"none": {0: UNKNOWN}}, None, [])
    response, request, records = alter(harness, ("t", {9: 5}))
    assert (errors(response), request, records) == ({"t": {9: UNKNOWN}}, None, ["StatePartitionMetadata"])


def test_offsets_of_a_group_with_members_stay(harness: Harness) -> None:
    harness.beat("a", 0)
    response, request, records = alter(harness, ("t", {0: 7}))
    assert (response.error_code, response.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    assert (request, records) == (None, [])
    assert alter(harness, ("t", {0: 7}), group="")[0].error_code == ErrorCode.INVALID_GROUP_ID
    deleted, _ = harness.ask(DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic("t")]), 0)
    assert (deleted.response.error_code, deleted.request) == (ErrorCode.NON_EMPTY_GROUP, None)


def delete(harness: Harness, *names: str, group: str = "g") -> tuple[Any, Any, list[str]]:
    request = DeleteShareGroupOffsetsRequest(group, [DeleteShareGroupOffsetsRequestTopic(name) for name in names])
    followed, records = harness.ask(request, 0)
    return followed.response, followed.request, records


def test_offsets_of_initialized_topics_are_deleted(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.initialize({T: {0, 2}})
    harness.beat("a", -1)
    response, request, records = delete(harness, "t", "u", "none")
    assert {one.topic_name: (one.error_code, one.error_message) for one in response.responses} == {
        "u": (UNKNOWN, "There is no offset information to delete."),
        "none": (UNKNOWN, "This server does not host this topic-partition."),
    }
    assert {topic.topic_id: [one.partition for one in topic.partitions] for topic in request.topics} == {T: [0, 2]}
    assert records == ["StatePartitionMetadata"]
    states = harness.group.states
    assert states is not None and (dict(states.initialized), dict(states.deleting)) == ({}, {T: "t"})
    _, request, _ = delete(harness, "t")
    assert [one.partition for one in request.topics[0].partitions] == [0, 1, 2], (
        "a deletion that is under way is repeated"
    )
    assert harness.ask(StatesDeleted("g", frozenset({U})))[1] == ["StatePartitionMetadata"]
    assert harness.group.states is not None and harness.group.states.deleting == {T: "t"}
    harness.ask(StatesDeleted("g", frozenset({T})))
    assert harness.group.states.deleting == {}
    assert delete(harness, "t")[1] is None
    assert harness.ask(StatesDeleted("none", frozenset({T})))[1] == []


def test_deletion_of_offsets_needs_a_share_group(harness: Harness) -> None:
    for group, error in (("", ErrorCode.INVALID_GROUP_ID), ("none", ErrorCode.GROUP_ID_NOT_FOUND)):
        response, request, records = delete(harness, "t", group=group)
        assert (response.error_code, request, records) == (error, None, [])


def test_state_of_a_deleted_group_is_deleted_first(harness: Harness) -> None:
    harness.beat("a", 0, ["t", "u"])
    harness.initialize({T: {0, 1, 2}})
    response, _ = harness.ask(DeletionOfGroups(["g", "none"]))
    assert (response.requests, response.errors) == ({}, {"g": ErrorCode.NON_EMPTY_GROUP})
    harness.beat("a", -1)
    response, records = harness.ask(DeletionOfGroups(["g"]))
    assert {topic.topic_id: [one.partition for one in topic.partitions] for topic in response.requests["g"].topics} == {
        T: [0, 1, 2],
        U: [0, 1],
    }
    assert response.errors == {} and records == ["StatePartitionMetadata"]
    states = harness.group.states
    assert states is not None and states.deleting == {T: "t", U: "u"} and not states.initialized
    harness.topics({"t": 2})
    response, _ = harness.ask(DeletionOfGroups(["g"]))
    assert [one.partition for one in response.requests["g"].topics[0].partitions] == [0, 1]
    harness.ask(StatesDeleted("g", frozenset({T, U})))
    assert harness.ask(DeletionOfGroups(["g"]))[0].requests == {}
