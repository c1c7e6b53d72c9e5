"""States and subscriptions of groups with server-side assignment, by their epochs and members."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.coordinator.groups.consumer import group as consumer
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember, ConsumerMemberState
from odradek.coordinator.groups.share.group import ShareGroup
from odradek.coordinator.groups.share.member import ShareMember
from odradek.coordinator.groups.streams import group as streams
from odradek.coordinator.groups.streams import tasks
from odradek.coordinator.groups.streams.group import StreamsGroup
from odradek.coordinator.groups.streams.member import StreamsMember
from odradek.coordinator.groups.streams.tasks import TaskId
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.consumer_group_records import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionValue,
)
from odradek.protocol.internal.share_group_records import ShareGroupMemberMetadataValue
from odradek.protocol.internal.streams_group_records import StreamsGroupTopologyValue, Subtopology, TopologyTopic

STABLE, UNREVOKED, UNRELEASED = (
    ConsumerMemberState.STABLE,
    ConsumerMemberState.UNREVOKED_PARTITIONS,
    ConsumerMemberState.UNRELEASED_PARTITIONS,
)


# ---- consumer groups


@pytest.mark.parametrize(
    ("epoch", "target_epoch", "members", "state"),
    [
        (5, 5, [], consumer.ConsumerGroupState.EMPTY),
        (5, 4, [], consumer.ConsumerGroupState.EMPTY),
        (5, 4, [(STABLE, 5)], consumer.ConsumerGroupState.ASSIGNING),
        (5, 5, [(STABLE, 5)], consumer.ConsumerGroupState.STABLE),
        (5, 5, [(STABLE, 5), (STABLE, 4)], consumer.ConsumerGroupState.RECONCILING),
        (5, 5, [(STABLE, 5), (UNREVOKED, 5)], consumer.ConsumerGroupState.RECONCILING),
        (5, 5, [(UNRELEASED, 5)], consumer.ConsumerGroupState.RECONCILING),
    ],
)
def test_state_of_a_consumer_group_follows_from_its_epochs_and_members(
    epoch: int, target_epoch: int, members: list[tuple[ConsumerMemberState, int]], state: consumer.ConsumerGroupState
) -> None:
    group = ConsumerGroup("g")
    group.epoch, group.target_epoch = epoch, target_epoch
    for number, (member_state, member_epoch) in enumerate(members):
        metadata = ConsumerGroupMemberMetadataValue()
        member = ConsumerMember(str(number), metadata, epoch=member_epoch, state=member_state)
        group.members[member.member_id] = member
    assert group.state is state
    assert group.validate_deletion() == (ErrorCode.NON_EMPTY_GROUP if members else ErrorCode.NONE)


def test_consumer_group_is_subscribed_by_names_and_by_expressions_in_use() -> None:
    group = ConsumerGroup("g")
    group.name_users["named"] = 1
    group.regexes["used.*"] = ConsumerGroupRegularExpressionValue(topics=["matched"], version=1, timestamp=1)
    group.regexes["unused.*"] = ConsumerGroupRegularExpressionValue(topics=["unmatched"], version=1, timestamp=1)
    group.regex_users["used.*"] = 1
    assert group.input_topics() == group.subscribed_topics() == {"named", "matched"}
    assert [group.is_subscribed_to(topic) for topic in ("named", "matched", "unmatched", "other")] == [
        True, True, False, False
    ]  # fmt: skip
    assert (group.is_regex_used("used.*"), group.is_regex_used("unused.*")) == (True, False)


def test_partition_of_a_consumer_group_is_held_by_topic_and_index() -> None:
    group = ConsumerGroup("g")
    group.holders[b"t" * 16, 1] = "m"
    assert [group.is_held(b"t" * 16, index) for index in (0, 1)] == [False, True]
    assert not group.is_held(b"u" * 16, 1)


# ---- share groups


def test_share_group_is_stable_and_subscribed_while_it_has_members() -> None:
    group = ShareGroup("g")
    assert (group.state.name, group.input_topics(), group.is_subscribed_to("t")) == ("EMPTY", set(), False)
    for member_id, names in (("0", ["t"]), ("1", ["t", "u"])):
        metadata = ShareGroupMemberMetadataValue(subscribed_topic_names=names)
        group.members[member_id] = ShareMember(member_id, metadata)
    assert (group.state.name, group.input_topics()) == ("STABLE", {"t", "u"})
    assert (group.is_subscribed_to("u"), group.is_subscribed_to("v")) == (True, False)


# ---- streams groups

TOPOLOGY = StreamsGroupTopologyValue(
    epoch=3,
    subtopologies=[
        Subtopology(
            subtopology_id="0",
            source_topics=["orders"],
            repartition_source_topics=[TopologyTopic(name="by-user")],
            state_changelog_topics=[TopologyTopic(name="store")],
        ),
        Subtopology(subtopology_id="1", source_topics=["users"]),
    ],
)


@pytest.mark.parametrize(
    ("topology", "validated", "epoch", "target_epoch", "reconciled", "state"),
    [
        (TOPOLOGY, 3, 5, 5, [], streams.StreamsGroupState.EMPTY),
        (None, -1, 5, 5, [True], streams.StreamsGroupState.NOT_READY),
        (TOPOLOGY, 2, 5, 5, [True], streams.StreamsGroupState.NOT_READY),
        (TOPOLOGY, 3, 5, 4, [True], streams.StreamsGroupState.ASSIGNING),
        (TOPOLOGY, 3, 5, 5, [True, True], streams.StreamsGroupState.STABLE),
        (TOPOLOGY, 3, 5, 5, [True, False], streams.StreamsGroupState.RECONCILING),
    ],
)
def test_state_of_a_streams_group_follows_from_its_topology_epochs_and_members(
    topology: Any,
    validated: int,
    epoch: int,
    target_epoch: int,
    reconciled: list[bool],
    state: streams.StreamsGroupState,
) -> None:
    group = StreamsGroup("g")
    group.topology, group.epoch, group.target_epoch = topology, epoch, target_epoch
    group.metadata.validated_topology_epoch = validated
    for number, is_reconciled in enumerate(reconciled):
        member = StreamsMember(str(number), epoch=target_epoch if is_reconciled else target_epoch - 1)
        assert member.is_reconciled_to(target_epoch) == is_reconciled
        group.members[member.member_id] = member
    assert group.state is state


@pytest.mark.parametrize(("has_members", "topology"), [(True, TOPOLOGY), (False, TOPOLOGY), (True, None)])
def test_streams_group_with_members_reads_the_sources_of_its_topology(has_members: bool, topology: Any) -> None:
    group = StreamsGroup("g")
    members: Any = {"m": None} if has_members else {}
    group.members, group.topology = members, topology
    is_subscribed = has_members and topology is not None
    expected = {"orders", "by-user", "users"}
    assert group.input_topics() == (expected if is_subscribed else set())
    for topic in expected:
        assert group.is_subscribed_to(topic) == is_subscribed
    assert not group.is_subscribed_to("store"), "a changelog is written and restored"
    assert group.required_topics() == ({*expected, "store"} if topology is not None else set())


@pytest.mark.parametrize("role", ["active", "standby", "warmup"])
def test_tasks_overlap_in_the_same_role_only(role: str) -> None:
    task, other = TaskId("0", 1), TaskId("0", 2)
    held = tasks.HeldTasks(active={task: 4}) if role == "active" else tasks.HeldTasks(**{role: frozenset({task})})
    assert not held.is_empty()
    for wanted in ("active", "standby", "warmup"):
        assert held.overlaps(tasks.Tasks(**{wanted: frozenset({task})})) == (wanted == role)
        assert not held.overlaps(tasks.Tasks(**{wanted: frozenset({other})}))
        assert not tasks.Tasks(**{wanted: frozenset({task})}).is_empty()
    assert tasks.HeldTasks().is_empty() and tasks.Tasks().is_empty()
