"""Members of one protocol join a group of the other, under each `group.consumer.migration.policy`.

The responses are those of Apache Kafka 4.3.1 (compat_tests/differential/test_migration_policies.py).
"""

from __future__ import annotations

from typing import Any

import pytest
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

from tests.coordinator.harness.group_migration import Stand

BOTH_ASSIGNED, NEITHER = [0, 1], b"\0\1" + bytes(4) + b"\xff\xff\xff\xff"
JOINABLE = ("upgrade", "downgrade", "bidirectional")


def heartbeat(stand: Stand, member_id: str, generation: int) -> ErrorCode:
    request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    return ErrorCode(stand.ask(request, 4).error_code)


def joined(stand: Stand, *owned: int, version: int = 9, instance_id: str | None = None) -> Any:
    """Returns the response of a successful JoinGroup, after a second request if the version requires a member id."""
    answer = stand.join("", *owned, version=version, instance_id=instance_id)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = stand.join(answer.member_id, *owned, version=version)
    return answer


def leave(stand: Stand, member_id: str) -> None:
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    assert stand.ask(request, 5).error_code == 0


def test_classic_member_cannot_join_consumer_group_when_policy_is_disabled() -> None:
    stand = Stand("disabled")
    stand.beat(0)
    for version in (0, 3, 4, 9):
        assert stand.join(version=version).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stand.kind == "consumer" and list(stand.group(ConsumerGroup).members) == ["new"]


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\x00\x01\xff\xff", b"\x7f\xff" + b"x" * 20])
def test_member_gets_its_id_before_its_subscription_is_decoded(metadata: bytes) -> None:
    """As in Apache Kafka, whose own testDowngradeMigrationPolicy joins with empty metadata."""
    stand = Stand("bidirectional")
    stand.beat(0)
    first = stand.join(version=9, metadata=metadata)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED and first.member_id
    assert stand.join(first.member_id, version=9, metadata=metadata).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stand.join(version=3, metadata=metadata).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert list(stand.group(ConsumerGroup).members) == ["new"]


def test_member_id_is_not_given_where_the_protocol_or_the_size_refuses_the_member() -> None:
    stand = Stand("bidirectional")
    stand.beat(0)
    assert stand.join(version=9, protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    unknown = stand.join("another", version=9, instance_id="i")
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("policy", JOINABLE)
@pytest.mark.parametrize("version", [0, 3, 4, 9])
def test_classic_member_gets_partition_after_consumer_member_revokes_it(policy: str, version: int) -> None:
    stand = Stand(policy)
    epoch = stand.beat(0).member_epoch
    classic = joined(stand, version=version)
    assert classic.error_code == 0
    member_id, generation = classic.member_id, classic.generation_id
    answer = stand.sync(member_id, generation)
    assert (answer.error_code, answer.assignment) == (0, NEITHER)
    assert heartbeat(stand, member_id, generation) == ErrorCode.NONE, "the other member has not revoked anything"
    (kept,) = stand.beat(epoch, 0, 1).assignment.topic_partitions
    assert heartbeat(stand, member_id, generation) == ErrorCode.NONE, "the revocation is not confirmed"
    epoch = stand.beat(epoch, *kept.partitions).member_epoch
    assert heartbeat(stand, member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    again = stand.join(member_id, version=version)
    assert (again.error_code, again.generation_id) == (0, generation)
    given = stand.sync(member_id, generation)
    assert given.error_code == 0 and given.assignment != NEITHER
    assert heartbeat(stand, member_id, generation) == ErrorCode.NONE
    leave(stand, member_id)
    assert heartbeat(stand, member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    (all_again,) = stand.beat(epoch, *kept.partitions).assignment.topic_partitions
    assert all_again.partitions == BOTH_ASSIGNED


@pytest.mark.parametrize(
    ("policy", "kind"), [("upgrade", "consumer"), ("downgrade", "classic"), ("bidirectional", "classic")]
)
def test_group_is_downgraded_after_last_consumer_member_if_policy_permits(policy: str, kind: str) -> None:
    stand = Stand(policy)
    stand.beat(0)
    classic = joined(stand)
    assert stand.sync(classic.member_id, classic.generation_id).error_code == 0
    stand.beat(-1)
    assert stand.kind == kind
    if kind == "consumer":
        assert heartbeat(stand, classic.member_id, classic.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
        assert stand.join(classic.member_id, version=9).error_code == 0
        return
    generation = stand.group(ClassicGroup).generation_id
    assert heartbeat(stand, classic.member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert stand.sync(classic.member_id, generation).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = stand.join(classic.member_id, version=9)
    assert stand.sync(classic.member_id, again.generation_id, 0, 1).error_code == 0
    assert heartbeat(stand, classic.member_id, again.generation_id) == ErrorCode.NONE


@pytest.mark.parametrize("policy", JOINABLE)
def test_rejoining_static_classic_member_replaces_its_former_id(policy: str) -> None:
    stand = Stand(policy)
    stand.beat(0)
    first = joined(stand, version=9, instance_id="i")
    assert stand.sync(first.member_id, first.generation_id).error_code == 0
    second = joined(stand, version=9, instance_id="i")
    assert second.member_id != first.member_id
    assert stand.sync(second.member_id, second.generation_id).error_code == 0
    assert stand.sync(first.member_id, first.generation_id).error_code == ErrorCode.UNKNOWN_MEMBER_ID


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
    stand = Stand(policy)
    old = stand.classic()
    assert stand.beat(0).error_code == error
    if error:
        assert stand.kind == "classic"
        assert heartbeat(stand, old, 1) == ErrorCode.NONE, "the members are not affected"
        assert stand.sync(old, 1).error_code == 0
    else:
        assert heartbeat(stand, old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        again = stand.join(old, 0)
        assert stand.sync(old, again.generation_id).error_code == 0
    leave(stand, old)
    answer = stand.beat(0)
    assert answer.error_code == 0, "an empty classic group can be replaced"
    assert [one.partitions for one in answer.assignment.topic_partitions] == [BOTH_ASSIGNED]
