"""The records of consumer and streams groups in any order that a log may have: holders, instances and counts follow."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest, MetadataChanged, Record
from odradek.coordinator.transaction_requests import TransactionRequest, TransactionsConfig
from odradek.coordinator.transaction_shard import TransactionShard
from odradek.protocol.internal import consumer_group_records
from odradek.protocol.internal.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    OwnedTopicPartitions,
)
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest

from tests.coordinator.group_simulation import image_of
from tests.coordinator.harness.kinds import new_shard

T = b"t".ljust(16, b".")
NOW = 1_000_000


def of_member(member: str, *names: str, instance: str | None = None, regex: str = "") -> Record:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=instance, subscribed_topic_names=list(names), subscribed_topic_regex=regex
    )
    return Record(ConsumerGroupMemberMetadataKey("g", member), value, 0)


def holds(member: str, *indexes: int, epoch: int = 2, revoking: tuple[int, ...] = ()) -> Record:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        assigned_partitions=[OwnedTopicPartitions(T, list(indexes))],
        partitions_pending_revocation=[OwnedTopicPartitions(T, list(revoking))] if revoking else [],
    )
    return Record(ConsumerGroupCurrentMemberAssignmentKey("g", member), value, 0)


def gone(record: Record) -> Record:
    return record._replace(value=None)


def replayed(*made: Record) -> ConsumerGroup:
    shard = new_shard(GroupsConfig())
    for record in made:
        shard.state.replay(record)
    group = shard.state.find(ConsumerGroup, "g")
    assert group is not None
    return group


# ---- partitions that members hold


@pytest.mark.parametrize(
    ("made", "holders"),
    [
        ([of_member("a", "t"), holds("a", 0, 1)], {0: "a", 1: "a"}),
        ([of_member("a", "t"), holds("a", 0, 1), holds("a", 1)], {1: "a"}),
        ([of_member("a", "t"), holds("a", 0, revoking=(1,))], {0: "a", 1: "a"}),
        ([of_member("a", "t"), holds("a", 0, 1), gone(holds("a"))], {}),
        ([of_member("a", "t"), holds("a", 0, 1), gone(of_member("a"))], {}),
        ([holds("a", 0, 1), of_member("a", "t")], {0: "a", 1: "a"}),
        ([of_member("a", "t"), of_member("b", "t"), holds("a", 0), holds("b", 1), gone(of_member("a"))], {1: "b"}),
        ([of_member("a", "t"), gone(of_member("b")), gone(holds("b"))], {}),
    ],
)
def test_partitions_are_held_until_their_member_gives_them_back_or_is_removed(
    made: list[Record], holders: dict[int, str]
) -> None:
    group = replayed(*made)
    assert {index: member for (_, index), member in group.holders.items()} == holders


@pytest.mark.parametrize(
    ("made", "members", "instances"),
    [
        ([of_member("a", instance="i")], ["a"], {"i": "a"}),
        ([of_member("a", instance="i"), of_member("b", instance="i")], ["a", "b"], {"i": "b"}),
        ([of_member("a", instance="i"), of_member("b", instance="i"), gone(of_member("a"))], ["b"], {"i": "b"}),
        ([of_member("a", instance="i"), gone(of_member("a"))], [], {}),
        ([of_member("a", instance="i"), of_member("a", instance="j")], ["a"], {"j": "a"}),
        ([of_member("a", instance="i"), of_member("a")], ["a"], {}),
        ([of_member("a"), of_member("b", instance="i"), gone(of_member("a"))], ["b"], {"i": "b"}),
    ],
)
def test_instance_belongs_to_the_member_that_was_written_last(
    made: list[Record], members: list[str], instances: dict[str, str]
) -> None:
    group = replayed(*made)
    assert (sorted(group.members), group.static_members) == (members, instances)


def test_subscriptions_are_counted_by_topic_and_expression() -> None:
    group = replayed(of_member("a", "t", "u"), of_member("b", "t", regex="x.*"))
    assert (dict(group.name_users), dict(group.regex_users)) == ({"t": 2, "u": 1}, {"x.*": 1})
    group = replayed(of_member("a", "t", "u"), of_member("b", "t", regex="x.*"), of_member("b", "u"))
    assert (dict(group.name_users), dict(group.regex_users)) == ({"t": 1, "u": 2}, {})
    group = replayed(of_member("a", "t"), of_member("b", "t", regex="x.*"), gone(of_member("b")))
    assert (dict(group.name_users), dict(group.regex_users)) == ({"t": 1}, {})
    assert group.is_subscribed_to("t") and not group.is_subscribed_to("u")


@pytest.mark.parametrize(("epochs", "expected"), [([0, 3], {0: 0, 1: 3}), ([], {0: 2, 1: 2})])
def test_partition_without_an_epoch_of_its_own_has_that_of_its_member(
    epochs: list[int], expected: dict[int, int]
) -> None:
    """Records before Kafka 4.3 have none."""
    record = holds("a", 0, 1)
    value: Any = record.value
    value.assigned_partitions[0].assignment_epochs = epochs
    assert replayed(of_member("a", "t"), record).members["a"].assigned == {T: expected}


def test_epochs_of_a_group_are_those_of_its_records() -> None:
    group = replayed(of_member("a", "t"))
    assert (group.epoch, group.target_epoch, group.target_timestamp_ms) == (1, 1, 0)
    target = Record(ConsumerGroupTargetAssignmentMetadataKey("g"), ConsumerGroupTargetAssignmentMetadataValue(7, 99), 0)
    epoch = Record(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(8, 5), 0)
    group = replayed(of_member("a", "t"), target, epoch)
    assert (group.epoch, group.metadata_hash, group.target_epoch, group.target_timestamp_ms) == (8, 5, 7, 99)
    group = replayed(of_member("a", "t"), target, gone(target))
    assert (group.target_epoch, group.target_timestamp_ms) == (0, 0)


def test_tombstone_of_an_unknown_group_makes_none() -> None:
    shard = new_shard(GroupsConfig())
    shard.state.replay(Record(ConsumerGroupMetadataKey("g"), None, 0))
    shard.state.replay(gone(of_member("a")))
    assert shard.state.groups == {} and shard.state.next_offset == 2


# ---- what a heartbeat writes then


def heartbeat(shard: GroupShard, member: str, epoch: int, **fields: Any) -> list[Record]:
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []} | fields
    fields.setdefault("topic_partitions", None)
    request = ConsumerGroupHeartbeatRequest("g", member, epoch, **fields)
    shard.handle(GroupRequest(1, request, 1, "c", "/h", "0" * 32), NOW)
    output = shard.take()
    response: Any = output.replies[0].response
    assert response.error_code == 0, response
    return output.records


def loaded(*made: Record) -> GroupShard:
    shard = new_shard(GroupsConfig(consumer_assignment_interval_ms=0))
    shard.handle(MetadataChanged(image_of({"t": 4}), frozenset({"t"})), NOW)
    for record in made:
        shard.state.replay(record)
    return shard


@pytest.mark.parametrize("is_there", [False, True])
def test_partition_metadata_of_older_versions_is_deleted_with_the_next_epoch(is_there: bool) -> None:
    metadata = Record(
        ConsumerGroupPartitionMetadataKey("g"), consumer_group_records.ConsumerGroupPartitionMetadataValue(topics=[]), 0
    )
    shard = loaded(of_member("a", "t"), *([metadata] if is_there else []))
    written = [one for one in heartbeat(shard, "b", 0) if isinstance(one.key, ConsumerGroupPartitionMetadataKey)]
    assert [one.value for one in written] == ([None] if is_there else [])
    again = [one for one in heartbeat(shard, "c", 0) if isinstance(one.key, ConsumerGroupPartitionMetadataKey)]
    assert again == []


def test_static_member_that_leaves_keeps_its_partitions_with_epoch_zero() -> None:
    shard = loaded()
    heartbeat(shard, "a", 0, instance_id="i")
    (record,) = heartbeat(shard, "a", -2, instance_id="i")
    value: Any = record.value
    (topic,) = value.assigned_partitions
    assert (value.member_epoch, topic.partitions, topic.assignment_epochs) == (-2, [0, 1, 2, 3], [0, 0, 0, 0])


# ---- shards without work


def test_shard_without_transactions_waits_for_nothing() -> None:
    shard = TransactionShard(TransactionsConfig(abort_interval_ms=10, remove_expired_interval_ms=1000))
    shard.loaded(NOW)
    assert shard.deadline() is None
    shard.expire(NOW)
    shard.handle(TransactionRequest(1, InitProducerIdRequest("", 1000), 4), NOW)
    assert shard.deadline() is None, "the request was invalid"
    shard.handle(TransactionRequest(1, InitProducerIdRequest("a", 1000), 4, new_producer_id=0), NOW)
    assert shard.deadline() == NOW + 10
