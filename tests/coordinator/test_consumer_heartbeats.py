"""Heartbeats of consumer groups: each check at its limit, what a member keeps, votes, and regular expressions."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.coordinator.groups.consumer.assignors import Subscriber, range_, uniform
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.regexes import RESOLUTION_INTERVAL_MS
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest, MetadataChanged
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.assignments import TopicPartitions
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

from tests.coordinator.group_simulation import image_of
from tests.coordinator.harness.consumer_groups import given
from tests.coordinator.harness.kinds import new_shard

T, U = (name.ljust(16, b".") for name in (b"t", b"u"))
SESSION_MS = 45_000
REFRESH_MS = 600_000


class Harness:
    def __init__(self, **config: Any) -> None:
        defaults = {"consumer_assignment_interval_ms": 0, "consumer_regex_refresh_interval_ms": REFRESH_MS}
        self.shard = new_shard(GroupsConfig(**(defaults | config)))
        self.now = 1_000_000
        self.topics({"t": 4})

    def topics(self, counts: dict[str, int]) -> None:
        self.shard.handle(MetadataChanged(image_of(counts), frozenset({"t", "u", "tt"})), self.now)

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.state.find(ConsumerGroup, "g")
        assert group is not None
        return group

    def ask(self, request: Any, version: int = 1, describable: Any = None) -> tuple[Any, list[str]]:
        self.shard.handle(GroupRequest(1, request, version, "c", "/h", "0" * 32, describable), self.now)
        output = self.shard.take()
        ((_, response),) = output.replies
        names = [type(one.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key") for one in output.records]
        return response, ["-" * (r.value is None) + name for name, r in zip(names, output.records, strict=True)]

    def beat(self, member: str, epoch: int, owned: list[int] | None = None, **fields: Any) -> tuple[Any, list[str]]:
        version, describable = fields.pop("version", 1), fields.pop("describable", None)
        if epoch == 0:
            fields = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []} | fields
        elif owned is not None:
            fields["topic_partitions"] = [TopicPartitions(T, owned)]
        fields.setdefault("topic_partitions", None)
        group = fields.pop("group_id", "g")
        return self.ask(ConsumerGroupHeartbeatRequest(group, member, epoch, **fields), version, describable)


@pytest.fixture
def harness() -> Harness:
    return Harness()


# ---- checks


NO_SUBSCRIPTION = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": " "}, "InstanceId can't be empty."),
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"member": " "}, "MemberId can't be empty."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"topic_partitions": [TopicPartitions(T, [0])]}, "TopicPartitions must be empty when (re-)joining."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"subscribed_topic_names": None}, NO_SUBSCRIPTION),
        ({"subscribed_topic_names": None, "subscribed_topic_regex": ""}, None),
        ({"subscribed_topic_names": []}, None),
        ({"epoch": -3}, "MemberEpoch is invalid."),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"rebalance_timeout_ms": 0, "rack_id": "r", "instance_id": "i"}, None),
        (
            {"server_assignor": "sticky"},
            "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
        ),
    ],
)
def test_heartbeat_is_checked_before_anything_is_written(
    harness: Harness, fields: dict[str, Any], words: str | None
) -> None:
    response, records = harness.beat(fields.pop("member", "a"), fields.pop("epoch", 0), **fields)
    assert response.error_message == words
    assert bool(records) == (words is None)
    if words is not None:
        is_assignor = words.startswith("ServerAssignor")
        assert response.error_code == (ErrorCode.UNSUPPORTED_ASSIGNOR if is_assignor else ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize(("version", "error"), [(0, ErrorCode.NONE), (1, ErrorCode.INVALID_REQUEST)])
def test_coordinator_generates_the_member_ids_of_version_0(harness: Harness, version: int, error: ErrorCode) -> None:
    response, _ = harness.beat("", 0, version=version)
    assert response.error_code == error and bool(response.member_id) == (version == 0)
    if version == 0:
        assert harness.beat("", 2, version=0)[0].error_code == ErrorCode.INVALID_REQUEST


def test_group_that_is_not_there_or_of_another_kind_is_named(harness: Harness) -> None:
    assert harness.beat("a", 2)[0].error_message == "Consumer group g not found."
    assert harness.beat("a", -1)[0].error_message == "Group g not found."
    harness.ask(ShareGroupHeartbeatRequest("g", "x", 0, subscribed_topic_names=["t"]))
    for epoch in (0, 2, -1):
        response, _ = harness.beat("a", epoch)
        assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert response.error_message == "Group g is not a consumer group."


def test_group_of_full_size_takes_its_own_members_only() -> None:
    harness = Harness(consumer_max_size=2)
    harness.beat("a", 0)
    harness.beat("b", 0, instance_id="i")
    response, records = harness.beat("c", 0)
    assert (response.error_code, records) == (ErrorCode.GROUP_MAX_SIZE_REACHED, [])
    assert harness.beat("a", 0)[0].error_code == 0
    harness.beat("b", -2, instance_id="i")
    assert harness.beat("d", 0, instance_id="i")[0].error_code == 0
    assert harness.beat("c", 2)[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_previous_epoch_is_valid_with_no_more_partitions_than_the_assigned_ones(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.beat("b", 0)
    harness.beat("a", 2, [0, 1, 2, 3])
    harness.beat("a", 2, [0, 1])
    member = harness.group.members["a"]
    assert (member.epoch, member.previous_epoch) == (3, 2)
    for owned, is_valid in (([0, 1], True), ([0], True), ([0, 2], False), (None, False)):
        error = harness.beat("a", 2, owned)[0].error_code
        assert error == (ErrorCode.NONE if is_valid else ErrorCode.FENCED_MEMBER_EPOCH)
    response, _ = harness.beat("a", 1, [0])
    assert "smaller member epoch (1)" in response.error_message
    assert "greater member epoch (4)" in harness.beat("a", 4, [0])[0].error_message


def test_static_member_is_known_by_its_instance(harness: Harness) -> None:
    harness.beat("a", 0, instance_id="i")
    assert harness.beat("b", 0, instance_id="i")[0].error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert harness.beat("b", 2, instance_id="i")[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert harness.beat("a", 2, instance_id="j")[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat("b", -1, instance_id="i")[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    response, records = harness.beat("a", -2, instance_id="i")
    assert (response.member_id, response.member_epoch, records) == ("a", -2, ["CurrentMemberAssignment"])
    assert harness.group.members["a"].epoch == -2 and harness.group.session("a").is_set
    response, _ = harness.beat("b", 0, instance_id="i")
    assert given(response) == [0, 1, 2, 3] and set(harness.group.members) == {"b"}
    harness.beat("b", -1, instance_id="i")
    assert not harness.group.members and not harness.group.static_members


# ---- what the group keeps of a member


def test_omitted_fields_keep_their_values(harness: Harness) -> None:
    harness.beat("a", 0, subscribed_topic_names=["u", "t", "t"], rack_id="r", instance_id="i", server_assignor="range")
    before = harness.group.members["a"].metadata
    assert (before.subscribed_topic_names, before.rack_id, before.server_assignor) == (["t", "u"], "r", "range")
    assert (before.rebalance_timeout_ms, before.client_id, before.client_host) == (30_000, "c", "/h")
    assert harness.beat("a", 2, instance_id="i")[1] == [] and harness.group.members["a"].metadata == before
    epoch = harness.group.epoch
    harness.beat("a", 2, instance_id="i", rebalance_timeout_ms=7, rack_id="s")
    after = harness.group.members["a"].metadata
    assert (after.rebalance_timeout_ms, after.rack_id, harness.group.epoch) == (7, "s", epoch)
    harness.beat("a", 2, instance_id="i", subscribed_topic_names=["t"])
    assert harness.group.members["a"].metadata.subscribed_topic_names == ["t"]
    assert harness.group.epoch == epoch + 1


def test_session_and_revocation_have_their_times(harness: Harness) -> None:
    harness.beat("a", 0, rebalance_timeout_ms=700)
    harness.beat("b", 0)
    harness.now += 5
    harness.beat("a", 2, [0, 1, 2, 3])
    group = harness.group
    assert group.session("a").deadline_ms == harness.now + SESSION_MS
    assert group.revocation("a").deadline_ms == harness.now + 700
    harness.now += 5
    harness.beat("a", 2, [0, 1, 2, 3])
    assert group.revocation("a").deadline_ms == harness.now + 695, "it lasts from the first request to revoke on"
    harness.beat("a", 2, [0, 1])
    assert not group.revocation("a").is_set


def test_full_heartbeat_gets_its_assignment_again(harness: Harness) -> None:
    harness.beat("a", 0)
    full = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"]}
    assert given(harness.beat("a", 2, [0, 1, 2, 3], **full)[0]) == [0, 1, 2, 3]
    assert given(harness.beat("a", 2, [0, 1, 2, 3])[0]) is None
    assert given(harness.beat("a", 2, **full)[0]) is None
    assert given(harness.beat("a", 2, [0, 1, 2, 3], rebalance_timeout_ms=30_000)[0]) is None
    assert given(harness.beat("a", 2, [0, 1, 2, 3], subscribed_topic_names=["t"])[0]) is None


def test_last_member_that_leaves_lets_the_next_one_not_wait() -> None:
    harness = Harness(consumer_assignment_interval_ms=60_000)
    harness.beat("a", 0)
    assert "TargetAssignmentMetadata" not in harness.beat("b", 0)[1], "the interval is not over"
    gone = ["-CurrentMemberAssignment", "-TargetAssignmentMember", "-MemberMetadata", "Metadata"]
    assert harness.beat("b", -1)[1] == gone
    assert harness.beat("a", -1)[1] == [*gone, "TargetAssignmentMetadata"]
    assert given(harness.beat("c", 0)[0]) == [0, 1, 2, 3]


# ---- assignors


def test_most_requested_assignor_is_used(harness: Harness) -> None:
    harness.topics({"t": 3})
    harness.beat("a", 0, server_assignor="range")
    group = harness.group
    available = harness.shard.state.config.consumer_assignors
    assert list(available) == ["uniform", "range"] and group.assignor(available) == "range"
    epoch = group.epoch
    harness.beat("a", 2, server_assignor="uniform")
    assert group.assignor(available) == "uniform" and group.epoch == epoch + 1
    harness.beat("b", 0, server_assignor="range")
    assert group.assignor(available) == "uniform", "the first one of equals"
    harness.beat("c", 0, server_assignor="range")
    assert group.assignor(available) == "range"


def members(*subscribed: tuple[bytes, ...], **current: dict[bytes, frozenset[int]]) -> dict[str, Subscriber]:
    return {
        name: Subscriber(None, frozenset(topics), current.get(name, {}))
        for name, topics in zip("abcdef", subscribed, strict=False)
    }


def sizes(found: dict[str, dict[bytes, frozenset[int]]]) -> list[int]:
    return [sum(map(len, of_member.values())) for of_member in found.values()]


@pytest.mark.parametrize(
    ("count", "partitions", "expected"), [(1, 3, [3]), (2, 3, [2, 1]), (3, 3, [1, 1, 1]), (4, 3, [1, 1, 1, 0])]
)
def test_equal_subscriptions_have_loads_that_differ_by_one_at_most(
    count: int, partitions: int, expected: list[int]
) -> None:
    found = uniform(members(*[(T,)] * count), {T: partitions})
    assert sorted(sizes(found), reverse=True) == expected
    assert sorted(index for of in found.values() for index in of.get(T, ())) == list(range(partitions))
    ranges = range_(members(*[(T,)] * count), {T: partitions})
    assert sizes(ranges) == expected
    assert [sorted(of.get(T, ())) for of in ranges.values()] == [
        list(range(sum(expected[:number]), sum(expected[: number + 1]))) for number in range(count)
    ]


def test_member_keeps_its_partitions_up_to_its_share() -> None:
    every = frozenset(range(4))
    found = uniform(members((T,), (T,), b={T: every}), {T: 4})
    assert found["b"][T] == {0, 1} and found["a"][T] == {2, 3}
    found = uniform(members((T,), (T,), b={T: frozenset({0, 1, 2})}), {T: 3})
    assert len(found["b"][T]) == 2, "the member that has more gets the extra one"
    gone = uniform(members((T,), a={T: frozenset({0, 9}), U: frozenset({0})}), {T: 2})
    assert gone["a"] == {T: frozenset({0, 1})}, "partitions and topics that are gone"
    twice = uniform(members((T,), (T,), a={T: frozenset({0})}, b={T: frozenset({0})}), {T: 2})
    assert sizes(twice) == [1, 1]


def test_different_subscriptions_are_evened_out_as_far_as_they_permit() -> None:
    found = uniform(members((T, U), (T,)), {T: 4, U: 2})
    assert sizes(found) == [3, 3] and found["b"].keys() == {T} and found["a"][U] == {0, 1}
    found = uniform(members((T,), (T, U), a={T: frozenset({0, 1, 2, 3})}), {T: 4, U: 4})
    assert sizes(found) == [4, 4] and found["a"] == {T: frozenset({0, 1, 2, 3})}
    found = uniform(members((T,), (T, U), (U,), b={T: frozenset({0, 1}), U: frozenset({0, 1})}), {T: 2, U: 2})
    assert sorted(sizes(found)) == [1, 1, 2]
    assert uniform({}, {T: 2}) == {} and uniform(members((), (T,)), {T: 1}) == {"a": {}, "b": {T: frozenset({0})}}


def test_static_members_come_first_in_a_range() -> None:
    found = range_({"a": Subscriber(None, frozenset({T}), {}), "z": Subscriber("i", frozenset({T}), {})}, {T: 3, U: 2})
    assert found == {"a": {T: frozenset({2})}, "z": {T: frozenset({0, 1})}}


# ---- regular expressions


def by_regex(harness: Harness, member: str, epoch: int, regex: str | None = None, **fields: Any) -> Any:
    names = {"subscribed_topic_names": []} if epoch == 0 else {}
    return harness.beat(member, epoch, subscribed_topic_regex=regex, **names, **fields)


def test_expression_is_resolved_once_and_again_when_it_is_old_or_topics_changed(harness: Harness) -> None:
    _, records = by_regex(harness, "a", 0, "t.*")
    assert records[-2:] == ["RegularExpression", "Metadata"]
    assert harness.group.regexes["t.*"].topics == ["t"]
    assert given(by_regex(harness, "a", harness.group.members["a"].epoch)[0]) == [0, 1, 2, 3]
    epoch = harness.group.members["a"].epoch
    harness.topics({"t": 4, "tt": 1})
    harness.now += RESOLUTION_INTERVAL_MS
    assert "RegularExpression" not in by_regex(harness, "a", epoch)[1], "one resolution in so many milliseconds"
    harness.now += 1
    assert "RegularExpression" in by_regex(harness, "a", epoch)[1]
    assert harness.group.regexes["t.*"].topics == ["t", "tt"]
    epoch = by_regex(harness, "a", epoch)[0].member_epoch
    harness.now += REFRESH_MS
    assert by_regex(harness, "a", epoch)[1] == []
    harness.now += 1
    group_epoch = harness.group.epoch
    assert by_regex(harness, "a", epoch)[1] == ["RegularExpression"]
    assert harness.group.epoch == group_epoch, "it matches the same topics"


def test_expression_that_no_member_uses_any_more_goes(harness: Harness) -> None:
    by_regex(harness, "a", 0, "t.*")
    by_regex(harness, "b", 0, "t.*")
    epochs = {name: member.epoch for name, member in harness.group.members.items()}
    assert "-RegularExpression" not in by_regex(harness, "a", epochs["a"], "u.*")[1]
    assert harness.group.is_regex_used("t.*") and not harness.group.is_regex_used("v.*")
    assert "-RegularExpression" in harness.beat("b", -1)[1] and "t.*" not in harness.group.regexes
    assert harness.group.regexes.keys() <= {"u.*"}


def test_member_that_drops_its_expression_needs_another_assignment(harness: Harness) -> None:
    by_regex(harness, "a", 0, "t.*")
    epoch = by_regex(harness, "a", harness.group.members["a"].epoch)[0].member_epoch
    group_epoch = harness.group.epoch
    response, records = by_regex(harness, "a", epoch, "")
    assert harness.group.epoch == group_epoch + 1 and "-RegularExpression" in records
    assert given(response) == [], "it subscribes to nothing"
    before = harness.group.epoch
    by_regex(harness, "a", response.member_epoch, "")
    assert harness.group.epoch == before


def test_topics_that_the_member_may_not_describe_are_left_out(harness: Harness) -> None:
    harness.topics({"t": 4, "tt": 1})
    by_regex(harness, "a", 0, "t.*", describable=lambda topics: {"tt"})
    assert harness.group.regexes["t.*"].topics == ["tt"]


def test_invalid_expression_changes_nothing(harness: Harness) -> None:
    response, records = by_regex(harness, "a", 0, "(")
    assert (response.error_code, records) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])
    assert response.error_message.startswith("SubscribedTopicRegex `(` is not a valid regular expression:")
