"""Members of one protocol join a group of the other, under each `group.consumer.migration.policy`.

The responses are those of Apache Kafka 4.3.1 (compat_tests/differential/test_migration_policies.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.consumer import migration
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.migration import Holding
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from tests.coordinator.harness.group_migration import Harness, T

BOTH_ASSIGNED, NEITHER = [0, 1], b"\0\1" + bytes(4) + b"\xff\xff\xff\xff"
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
JOINABLE = ("upgrade", "downgrade", "bidirectional")


def heartbeat(harness: Harness, member_id: str, generation: int) -> ErrorCode:
    request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    return ErrorCode(harness.ask(request, 4).error_code)


def joined(harness: Harness, *owned: int, version: int = 9, instance_id: str | None = None) -> Any:
    """Returns the response of a successful JoinGroup, after a second request if the version requires a member id."""
    response = harness.join("", *owned, version=version, instance_id=instance_id)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        response = harness.join(response.member_id, *owned, version=version)
    return response


def leave(harness: Harness, member_id: str) -> None:
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    assert harness.ask(request, 5).error_code == 0


def test_classic_member_cannot_join_consumer_group_when_policy_is_disabled() -> None:
    harness = Harness("disabled")
    harness.beat(0)
    for version in (0, 3, 4, 9):
        assert harness.join(version=version).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.kind == "consumer" and list(harness.group(ConsumerGroup).members) == ["new"]


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\x00\x01\xff\xff", b"\x7f\xff" + b"x" * 20])
def test_member_gets_its_id_before_its_subscription_is_decoded(metadata: bytes) -> None:
    """As in Apache Kafka, whose own testDowngradeMigrationPolicy joins with empty metadata."""
    harness = Harness("bidirectional")
    harness.beat(0)
    first = harness.join(version=9, metadata=metadata)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED and first.member_id
    assert (
        harness.join(first.member_id, version=9, metadata=metadata).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert harness.join(version=3, metadata=metadata).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert list(harness.group(ConsumerGroup).members) == ["new"]


@pytest.mark.parametrize("policy", ["disabled", "bidirectional"])
@pytest.mark.parametrize("version", [3, 9])
def test_join_of_another_kinds_group_is_answered(policy: str, version: int) -> None:
    """A share group keeps its id even when it is empty; no group of it answers the classic protocol."""
    harness = Harness(policy)
    for epoch in (0, -1):
        beat = ShareGroupHeartbeatRequest(group_id="g", member_id="s", member_epoch=epoch, subscribed_topic_names=["t"])
        response = harness.ask(beat, 1)
        assert getattr(response, "response", response).error_code == 0
        assert harness.join(version=version).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert harness.beat(0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert harness.kind == "share"


@pytest.mark.parametrize("policy", ["disabled", "upgrade", "downgrade", "bidirectional"])
def test_consumer_member_replaces_an_empty_classic_group_whatever_the_policy(policy: str) -> None:
    harness = Harness(policy)
    member = harness.classic()
    leave(harness, member)
    assert harness.group(ClassicGroup).members == {}
    assert harness.beat(0).error_code == 0
    assert harness.kind == "consumer"


def test_leave_of_static_members_names_each_by_its_instance() -> None:
    harness = Harness("bidirectional")
    harness.beat(0, member_id="own", instance_id="i")
    expected = {
        ("", "i2"): ErrorCode.UNKNOWN_MEMBER_ID,
        ("own", "i2"): ErrorCode.UNKNOWN_MEMBER_ID,
        ("other", "i"): ErrorCode.FENCED_INSTANCE_ID,
        ("other", None): ErrorCode.UNKNOWN_MEMBER_ID,
        ("", "i"): ErrorCode.NONE,
    }
    members = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in expected]
    response = harness.ask(LeaveGroupRequest(group_id="g", members=members), 5)
    assert [one.error_code for one in response.members] == list(expected.values())
    assert harness.group(ConsumerGroup).members == {}


@pytest.mark.parametrize(
    ("is_member", "generation", "error"),
    [
        (True, 1, ErrorCode.NONE),
        (True, 0, ErrorCode.ILLEGAL_GENERATION),
        (True, 2, ErrorCode.ILLEGAL_GENERATION),
        (False, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (False, 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_transactional_commit_needs_member_and_generation(is_member: bool, generation: int, error: ErrorCode) -> None:
    harness = Harness()
    member = harness.classic()
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=7,
        generation_id_or_member_epoch=generation,
        member_id=member if is_member else "another",
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    response = harness.ask(request, 3)
    assert response.topics[0].partitions[0].error_code == error


@pytest.mark.parametrize(
    ("holdings", "is_stable"),
    [
        ([Holding({T: frozenset({0, 1})}, {})], True),
        ([Holding({T: frozenset({0})}, {}), Holding({T: frozenset({1})}, {})], True),
        ([Holding({T: frozenset({0})}, {})], False),
        ([Holding({T: frozenset({0, 1})}, {T: frozenset({1})})], False),
    ],
)
@pytest.mark.parametrize("is_rebalancing", [False, True])
def test_upgraded_group_is_stable_if_all_is_assigned_and_nothing_is_revoked(
    holdings: list[Holding], is_stable: bool, is_rebalancing: bool
) -> None:
    harness = Harness()
    harness.classic()
    if is_rebalancing:
        harness.join_too()
    found = migration._is_stable(harness.shard.state, harness.group(ClassicGroup), ["t", "absent"], holdings)
    assert found == (is_stable and not is_rebalancing)


@pytest.mark.parametrize(("epoch", "owned", "expected"), [(0, (0, 1), True), (1, (0, 1), False), (0, (0,), False)])
def test_group_has_its_targets_if_all_members_own_theirs_in_the_same_epoch(
    epoch: int, owned: tuple[int, ...], expected: bool
) -> None:
    harness = Harness()
    harness.beat(0)
    group = harness.group(ConsumerGroup)
    assert migration.has_targets(group)
    group.epoch += epoch
    group.targets["new"] = {T: frozenset(owned)}
    assert migration.has_targets(group) == expected


def test_member_id_is_not_given_where_the_protocol_or_the_size_refuses_the_member() -> None:
    harness = Harness("bidirectional")
    harness.beat(0)
    assert harness.join(version=9, protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    unknown = harness.join("another", version=9, instance_id="i")
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("policy", JOINABLE)
@pytest.mark.parametrize("version", [0, 3, 4, 9])
def test_classic_member_gets_partition_after_consumer_member_revokes_it(policy: str, version: int) -> None:
    harness = Harness(policy)
    epoch = harness.beat(0).member_epoch
    classic = joined(harness, version=version)
    assert classic.error_code == 0
    member_id, generation = classic.member_id, classic.generation_id
    response = harness.sync(member_id, generation)
    assert (response.error_code, response.assignment) == (0, NEITHER)
    assert heartbeat(harness, member_id, generation) == ErrorCode.NONE, "the other member has not revoked anything"
    (kept,) = harness.beat(epoch, 0, 1).assignment.topic_partitions
    assert heartbeat(harness, member_id, generation) == ErrorCode.NONE, "the revocation is not confirmed"
    epoch = harness.beat(epoch, *kept.partitions).member_epoch
    assert heartbeat(harness, member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    again = harness.join(member_id, version=version)
    assert (again.error_code, again.generation_id) == (0, generation)
    given = harness.sync(member_id, generation)
    assert given.error_code == 0 and given.assignment != NEITHER
    assert heartbeat(harness, member_id, generation) == ErrorCode.NONE
    leave(harness, member_id)
    assert heartbeat(harness, member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    (all_again,) = harness.beat(epoch, *kept.partitions).assignment.topic_partitions
    assert all_again.partitions == BOTH_ASSIGNED


@pytest.mark.parametrize(
    ("policy", "kind"), [("upgrade", "consumer"), ("downgrade", "classic"), ("bidirectional", "classic")]
)
def test_group_is_downgraded_after_last_consumer_member_if_policy_permits(policy: str, kind: str) -> None:
    harness = Harness(policy)
    harness.beat(0)
    classic = joined(harness)
    assert harness.sync(classic.member_id, classic.generation_id).error_code == 0
    harness.beat(-1)
    assert harness.kind == kind
    if kind == "consumer":
        assert heartbeat(harness, classic.member_id, classic.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
        assert harness.join(classic.member_id, version=9).error_code == 0
        return
    generation = harness.group(ClassicGroup).generation_id
    assert heartbeat(harness, classic.member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.sync(classic.member_id, generation).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = harness.join(classic.member_id, version=9)
    assert harness.sync(classic.member_id, again.generation_id, 0, 1).error_code == 0
    assert heartbeat(harness, classic.member_id, again.generation_id) == ErrorCode.NONE


@pytest.mark.parametrize("policy", JOINABLE)
def test_rejoining_static_classic_member_replaces_its_former_id(policy: str) -> None:
    harness = Harness(policy)
    harness.beat(0)
    first = joined(harness, version=9, instance_id="i")
    assert harness.sync(first.member_id, first.generation_id).error_code == 0
    second = joined(harness, version=9, instance_id="i")
    assert second.member_id != first.member_id
    assert harness.sync(second.member_id, second.generation_id).error_code == 0
    assert harness.sync(first.member_id, first.generation_id).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        ("disabled", ErrorCode.GROUP_ID_NOT_FOUND),
        ("downgrade", ErrorCode.GROUP_ID_NOT_FOUND),
        ("upgrade", ErrorCode.NONE),
        ("bidirectional", ErrorCode.NONE),
    ],
)
def test_consumer_member_joins_nonempty_classic_group_if_policy_permits(policy: str, error: ErrorCode) -> None:
    harness = Harness(policy)
    old = harness.classic()
    assert harness.beat(0).error_code == error
    if error:
        assert harness.kind == "classic"
        assert heartbeat(harness, old, 1) == ErrorCode.NONE, "the members are not affected"
        assert harness.sync(old, 1).error_code == 0
    else:
        assert heartbeat(harness, old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        again = harness.join(old, 0)
        assert harness.sync(old, again.generation_id).error_code == 0
    leave(harness, old)
    response = harness.beat(0)
    assert response.error_code == 0, "an empty classic group can be replaced"
    assert [one.partitions for one in response.assignment.topic_partitions] == [BOTH_ASSIGNED]


@pytest.mark.parametrize(("size", "member_id", "error"), [(1, "new", FULL), (2, "new", 0), (1, "", 0), (2, "", 0)])
def test_full_classic_group_is_upgraded_by_its_own_members_only(size: int, member_id: str, error: int) -> None:
    harness = Harness("bidirectional")
    old = harness.classic()
    harness.shard.state.config = replace(harness.config, consumer_max_size=size)
    assert harness.beat(0, member_id=member_id or old).error_code == error
    assert harness.kind == ("classic" if error else "consumer")
    if error:
        assert heartbeat(harness, old, 1) == ErrorCode.NONE, "the members are not affected"
