"""Rules for the offsets of groups with member epochs: which commit, fetch and deletion is valid, and when offsets expire."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.coordinator.groups import member_commits as base
from odradek.coordinator.groups.classic import commits as classic
from odradek.coordinator.groups.classic.group import ClassicGroup, ClassicGroupState
from odradek.coordinator.groups.committed_offsets import CommittedOffset
from odradek.coordinator.groups.consumer import commits as consumer
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups.share import commits as share
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest
from odradek.coordinator.timers import Timers
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.consumer_group_records import ClassicMemberMetadata, ConsumerGroupMemberMetadataValue
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from tests.coordinator.harness.kinds import new_shard

TOPIC_ID, RETENTION_MS, NOW_MS = b"t" * 16, 1000, 50_000


def committed_at(commit_timestamp_ms: int, expire_timestamp_ms: int = -1) -> CommittedOffset:
    return CommittedOffset(7, -1, "", commit_timestamp_ms, expire_timestamp_ms, bytes(16), 0)


def classic_group() -> ClassicGroup:
    """Returns an empty group that is new."""
    return ClassicGroup("g", Timers(), [])


class Group:
    """A group with one member in epoch 5, which has owned partition 0 since epoch 3, and gives back partition 1."""

    def __init__(self, *, has_members: bool = True, is_classic: bool = False) -> None:
        metadata = ConsumerGroupMemberMetadataValue(
            classic_member_metadata=ClassicMemberMetadata() if is_classic else None
        )
        member = ConsumerMember("m", metadata, epoch=5, assigned={TOPIC_ID: {0: 3}}, revoking={TOPIC_ID: {1: 4}})
        self.members: Any = {"m": member} if has_members else {}

    def is_subscribed_to(self, topic: str) -> bool:
        return topic == "subscribed"


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "has_members", "is_classic", "error"),
    [
        ("", -1, 9, False, False, 0),
        ("", 0, 9, False, False, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, True, False, ErrorCode.UNKNOWN_MEMBER_ID),
        ("other", 5, 9, True, False, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", 5, 9, True, False, 0),
        ("m", 4, 9, True, False, 0),
        ("m", -1, 9, True, False, 0),
        ("m", 6, 9, True, False, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", 6, 9, True, True, ErrorCode.ILLEGAL_GENERATION),
        ("m", 5, 8, True, False, ErrorCode.UNSUPPORTED_VERSION),
        ("m", 5, 8, True, True, 0),
    ],
)
def test_commit_needs_a_member_whose_epoch_is_not_behind(
    member_id: str, epoch: int, version: int, has_members: bool, is_classic: bool, error: int
) -> None:
    group: Any = Group(has_members=has_members, is_classic=is_classic)
    request = OffsetCommitRequest(group_id="g", member_id=member_id, generation_id_or_member_epoch=epoch)
    state: Any = None
    assert base.validate_commit(state, group, request, version, NOW_MS) == error


@pytest.mark.parametrize(
    ("member_id", "epoch", "index", "is_classic", "error"),
    [
        ("m", 5, 7, False, 0),
        ("m", 3, 0, False, 0),
        ("m", 2, 0, False, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", 4, 1, False, 0),
        ("m", 3, 1, False, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", 4, 7, False, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", 4, 7, True, ErrorCode.ILLEGAL_GENERATION),
        ("other", 1, 7, False, 0),
    ],
)
def test_older_epoch_may_commit_what_the_member_has_owned_since(
    member_id: str, epoch: int, index: int, is_classic: bool, error: int
) -> None:
    group: Any = Group(is_classic=is_classic)
    request = OffsetCommitRequest(group_id="g", member_id=member_id, generation_id_or_member_epoch=epoch)
    assert consumer.validate_partition(group, request, TOPIC_ID, index) == error


@pytest.mark.parametrize(
    ("member_id", "instance_id", "epoch", "error"),
    [
        ("", None, -1, 0),
        ("", "static", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("other", None, 5, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", None, 5, 0),
        ("m", None, 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", None, 6, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", None, -1, ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
def test_transactional_commit_of_a_member_needs_its_epoch(
    member_id: str, instance_id: str | None, epoch: int, error: int
) -> None:
    group: Any = Group()
    request = TxnOffsetCommitRequest(
        group_id="g", member_id=member_id, group_instance_id=instance_id, generation_id_or_member_epoch=epoch
    )
    assert consumer.validate_transactional_commit(group, request) == error


@pytest.mark.parametrize(
    ("member_id", "epoch", "is_classic", "error"),
    [
        (None, -1, False, 0),
        (None, 0, False, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, False, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", 5, False, 0),
        ("m", 4, False, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", 6, True, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_fetch_of_a_member_needs_its_epoch_and_one_of_a_tool_has_none(
    member_id: str | None, epoch: int, is_classic: bool, error: int
) -> None:
    group: Any = Group(is_classic=is_classic)
    asked = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch)
    assert base.validate_fetch(group, asked) == error


@pytest.mark.parametrize(
    ("topic", "age_ms", "is_expired"),
    [("subscribed", 10 * RETENTION_MS, False), ("other", RETENTION_MS - 1, False), ("other", RETENTION_MS, True)],
)
def test_offsets_of_topics_without_a_subscription_expire_after_their_retention(
    topic: str, age_ms: int, is_expired: bool
) -> None:
    group: Any = Group()
    state = new_shard(GroupsConfig(offsets_retention_ms=RETENTION_MS)).state
    committed = committed_at(NOW_MS - age_ms)
    assert base.is_expired(state, group, topic, committed, NOW_MS) == is_expired


def test_offsets_may_be_deleted_of_any_topic_without_a_subscription() -> None:
    group: Any = Group()
    assert base.validate_delete(group) == ErrorCode.NONE


def test_share_groups_have_no_offsets() -> None:
    for rule in (share.RULES.validate_commit, share.RULES.validate_transactional_commit, share.RULES.validate_delete):
        checked: Any = rule
        assert checked(None, None) == ErrorCode.GROUP_ID_NOT_FOUND
    expired: Any = share.RULES.is_expired
    assert expired(None) is False


@pytest.mark.parametrize(
    ("protocol_type", "state", "topics", "may_expire"),
    [
        (None, ClassicGroupState.EMPTY, None, True),
        (None, ClassicGroupState.STABLE, None, True),
        ("consumer", ClassicGroupState.EMPTY, set(), True),
        ("consumer", ClassicGroupState.STABLE, {"other"}, True),
        ("consumer", ClassicGroupState.STABLE, {"t"}, False),
        ("consumer", ClassicGroupState.STABLE, None, False),
        ("consumer", ClassicGroupState.PREPARING_REBALANCE, {"other"}, False),
        ("connect", ClassicGroupState.STABLE, {"other"}, False),
        ("connect", ClassicGroupState.EMPTY, None, True),
    ],
)
def test_offsets_of_a_classic_group_expire_where_its_subscriptions_are_known(
    protocol_type: str | None, state: ClassicGroupState, topics: set[str] | None, may_expire: bool
) -> None:
    group = classic_group()
    group.protocol_type, group.state, group.subscribed_topics = protocol_type, state, topics
    shard = new_shard(GroupsConfig(offsets_retention_ms=RETENTION_MS)).state

    def is_expired(committed_ms: int, expires_ms: int = -1) -> bool:
        return classic.is_expired(shard, group, "t", committed_at(committed_ms, expires_ms), NOW_MS)

    assert is_expired(NOW_MS - RETENTION_MS) == may_expire
    assert not is_expired(NOW_MS - RETENTION_MS + 1)
    assert is_expired(NOW_MS, NOW_MS) == may_expire and not is_expired(0, NOW_MS + 1)
    group.state_timestamp_ms = NOW_MS - RETENTION_MS + 1
    counts_since_empty = protocol_type is not None and state is ClassicGroupState.EMPTY
    assert is_expired(0) == (may_expire and not counts_since_empty)


class CheckedClassicGroup:
    """A classic group of generation 0 with one member `m`, whose instance is `i`."""

    generation_id = 0

    def __init__(self, state: ClassicGroupState = ClassicGroupState.STABLE) -> None:
        self.state = state
        self.protocol_type = "consumer"
        self.members = {} if state is ClassicGroupState.EMPTY else {"m": "member"}
        self.touched: list[object] = []

    def validate_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id not in (None, "i"):
            return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def touch(self, member: object, now: int) -> None:
        self.touched.append((member, now))


@pytest.mark.parametrize(
    ("state", "member_id", "instance_id", "generation", "error"),
    [
        (ClassicGroupState.EMPTY, "", None, -1, 0),
        (ClassicGroupState.EMPTY, "", None, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicGroupState.STABLE, "", None, -1, ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicGroupState.STABLE, "m", None, 0, 0),
        (ClassicGroupState.STABLE, "m", "i", 0, 0),
        (ClassicGroupState.STABLE, "m", "j", 0, ErrorCode.FENCED_INSTANCE_ID),
        (ClassicGroupState.STABLE, "m", None, -1, ErrorCode.ILLEGAL_GENERATION),
        (ClassicGroupState.STABLE, "m", None, 1, ErrorCode.ILLEGAL_GENERATION),
        (ClassicGroupState.PREPARING_REBALANCE, "m", None, 0, 0),
        (ClassicGroupState.COMPLETING_REBALANCE, "m", None, 0, ErrorCode.REBALANCE_IN_PROGRESS),
        (ClassicGroupState.COMPLETING_REBALANCE, "m", None, 1, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_commit_to_a_classic_group_needs_its_generation_and_is_a_sign_of_life(
    state: ClassicGroupState, member_id: str, instance_id: str | None, generation: int, error: int
) -> None:
    group: Any = CheckedClassicGroup(state)
    request = OffsetCommitRequest(
        group_id="g", member_id=member_id, group_instance_id=instance_id, generation_id_or_member_epoch=generation
    )
    shard: Any = None
    assert classic.validate_commit(shard, group, request, 9, NOW_MS) == error
    is_of_member = error == 0 and state is not ClassicGroupState.EMPTY
    assert group.touched == ([("member", NOW_MS)] if is_of_member else [])


@pytest.mark.parametrize(
    ("member_id", "instance_id", "generation", "error"),
    [
        ("", None, -1, 0),
        ("", None, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "i", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", None, -1, ErrorCode.ILLEGAL_GENERATION),
        ("m", None, 0, 0),
        ("m", "i", 0, 0),
        ("m", "j", 0, ErrorCode.FENCED_INSTANCE_ID),
        ("m", None, 1, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_transactional_commit_to_a_classic_group_is_of_a_member_or_names_none(
    member_id: str, instance_id: str | None, generation: int, error: int
) -> None:
    group: Any = CheckedClassicGroup()
    request = TxnOffsetCommitRequest(
        group_id="g", member_id=member_id, group_instance_id=instance_id, generation_id_or_member_epoch=generation
    )
    assert classic.validate_transactional_commit(group, request) == error


@pytest.mark.parametrize(
    ("state", "protocol_type", "may_delete"),
    [
        (ClassicGroupState.EMPTY, "connect", True),
        (ClassicGroupState.STABLE, "consumer", True),
        (ClassicGroupState.STABLE, "connect", False),
        (ClassicGroupState.EMPTY, None, True),
        (ClassicGroupState.STABLE, None, False),
    ],
)
def test_offsets_of_a_classic_group_with_members_may_be_deleted_if_its_topics_are_known(
    state: ClassicGroupState, protocol_type: str | None, may_delete: bool
) -> None:
    group: Any = CheckedClassicGroup(state)
    group.protocol_type = protocol_type
    assert classic.validate_delete(group) == (ErrorCode.NONE if may_delete else ErrorCode.NON_EMPTY_GROUP)
    assert classic.validate_deletion(group) == (
        ErrorCode.NONE if state is ClassicGroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP
    )


# ---- what is counted


def committed_offsets(shard: GroupShard) -> int:
    return shard.state.counters.offset_commits


@pytest.mark.parametrize("is_transactional", [False, True])
def test_each_committed_offset_counts_once_and_one_with_too_long_metadata_does_not(is_transactional: bool) -> None:
    shard = new_shard(GroupsConfig(offset_metadata_max_bytes=3))
    parts = [(0, "abc"), (1, "abcd"), (2, None)]
    request: Any
    if is_transactional:
        written = [TxnOffsetCommitRequestPartition(index, 5, -1, words) for index, words in parts]
        topics: Any = [TxnOffsetCommitRequestTopic(name="t", partitions=written)]
        request = TxnOffsetCommitRequest(group_id="g", producer_id=0, producer_epoch=0, topics=topics)
    else:
        plain = [OffsetCommitRequestPartition(index, 5, -1, words) for index, words in parts]
        topics = [OffsetCommitRequestTopic(name="t", partitions=plain)]
        request = OffsetCommitRequest(group_id="g", topics=topics)
    shard.handle(GroupRequest(1, request, 5 if is_transactional else 8, "c", "/h", "0" * 32), NOW_MS)
    (reply,) = shard.take().replies
    response: Any = reply.response
    codes = [part.error_code for part in response.topics[0].partitions]
    assert codes == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE, 0]
    assert committed_offsets(shard) == 2
    assert shard.state.counters.offset_deletions == shard.state.counters.offset_expirations == 0
