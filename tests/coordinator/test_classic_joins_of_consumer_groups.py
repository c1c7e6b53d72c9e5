"""JoinGroup into a consumer group: which members it takes, by the policy, the size of the group and its protocol."""

from __future__ import annotations

import pytest
from odradek.coordinator.groups.consumer import classic_members
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.coordinator.groups_config import GroupsConfig
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.consumer_group_records import ConsumerGroupMemberMetadataValue
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

from tests.coordinator.harness.kinds import new_shard

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
WRONG = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def group_of(size: int) -> ConsumerGroup:
    """Returns a group with so many members from `m0` on, of which `m0` is that of instance `i0`."""
    group = ConsumerGroup("g")
    for number in range(size):
        group.members[f"m{number}"] = ConsumerMember(f"m{number}", ConsumerGroupMemberMetadataValue())
    group.static_members["i0"] = "m0"
    return group


@pytest.mark.parametrize(
    ("policy", "member", "instance", "size", "is_supported", "error"),
    [
        ("bidirectional", "", None, 1, True, ErrorCode.NONE),
        ("bidirectional", "", None, 2, True, FULL),
        ("bidirectional", "new", None, 2, True, FULL),
        ("bidirectional", "m0", None, 2, True, ErrorCode.NONE),
        ("bidirectional", "m0", None, 3, True, ErrorCode.NONE),
        ("bidirectional", "", "i0", 2, True, ErrorCode.NONE),
        ("bidirectional", "", "other", 2, True, FULL),
        ("upgrade", "m0", None, 1, False, WRONG),
        ("upgrade", "", None, 2, False, FULL),
        ("disabled", "m0", None, 1, True, WRONG),
        ("disabled", "", None, 2, True, WRONG),
    ],
)
def test_join_is_checked_by_policy_size_and_protocol(
    policy: str, member: str, instance: str | None, size: int, is_supported: bool, error: ErrorCode,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(classic_members, "_supports", lambda group, request: is_supported)
    state = new_shard(GroupsConfig(consumer_migration_policy=policy, consumer_max_size=2)).state
    group = group_of(size)
    request = JoinGroupRequest(group_id="g", group_instance_id=instance)
    assert classic_members._validate_join(state, group, request, member) == error


@pytest.mark.parametrize(
    ("member", "instance", "metadata", "error"),
    [
        ("m0", "i0", b"\0\0\0\0\0\0\0\0\0\0", ErrorCode.NONE),
        ("m1", "i0", b"\0\0\0\0\0\0\0\0\0\0", ErrorCode.FENCED_INSTANCE_ID),
        ("m0", "other", b"\0\0\0\0\0\0\0\0\0\0", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "i0", b"\0\0\0\0\0\0\0\0\0\0", ErrorCode.NONE),
        ("", "other", b"\0\0\0\0\0\0\0\0\0\0", ErrorCode.NONE),
        ("m1", None, b"\0\0\0\0\0\0\0\0\0\0", ErrorCode.NONE),
        ("m1", None, b"\0", WRONG),
        ("m1", "i0", b"\0", ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_static_member_that_has_an_id_is_the_one_of_its_instance(
    member: str, instance: str | None, metadata: bytes, error: ErrorCode
) -> None:
    group = group_of(1)
    protocols = [JoinGroupRequestProtocol("range", metadata)]
    request = JoinGroupRequest(group_id="g", member_id=member, group_instance_id=instance, protocols=protocols)
    assert classic_members._validate_member(group, request) == error
