"""Online protocol migration of groups with members, as permitted by `group.consumer.migration.policy`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.result import MetadataChanged
from odradek.protocol.codec import encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from tests.coordinator.group_logs import compacted, load_batches
from tests.coordinator.group_simulation import image_of
from tests.coordinator.harness.group_migration import VERSION, Harness, T


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [
        ("bidirectional", "consumer", "classic"),
        ("upgrade", "consumer", "consumer"),
        ("downgrade", "classic", None),
        ("disabled", "classic", None),
    ],
)
def test_policy_determines_group_kind_after_upgrade_and_downgrade(policy: str, up: str, down: str | None) -> None:
    harness = Harness(policy)
    harness.classic()
    joined = harness.beat(0)
    assert (harness.kind, joined.error_code) == (up, 0 if up == "consumer" else ErrorCode.GROUP_ID_NOT_FOUND)
    if down is not None:
        harness.beat(-1)
        assert harness.kind == down


def test_classic_member_revokes_partitions_by_rejoining() -> None:
    harness = Harness()
    old = harness.classic()
    joined = harness.beat(0)
    assert joined.assignment.topic_partitions == []
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=old)
    assert harness.ask(beat, 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    # The member reports no partitions, like an eager member.
    again = harness.join(old)
    assert (again.error_code, again.generation_id) == (0, joined.member_epoch)
    assert harness.sync(old, again.generation_id).assignment == VERSION + encode(
        ConsumerProtocolAssignment(
            assigned_partitions=[ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[0])]
        ),
        1,
    )
    assert [t.partitions for t in harness.beat(joined.member_epoch).assignment.topic_partitions] == [[1]]


def test_reload_restores_group_in_migration() -> None:
    harness = Harness()
    old = harness.classic()
    harness.beat(0)
    harness.join(old)
    before, after = harness.shard.state.find(ConsumerGroup, "g"), harness.loaded().state.find(ConsumerGroup, "g")
    assert before is not None and after is not None
    for name in ("epoch", "target_epoch", "members", "targets", "holders", "name_users", "regex_users"):
        assert getattr(before, name) == getattr(after, name), name
    harness.beat(-1)
    again = harness.loaded().state.find(ClassicGroup, "g")
    assert again is not None
    assert (list(again.members), again.generation_id) == ([old], 2)


def test_group_is_downgraded_when_last_consumer_member_expires() -> None:
    harness = Harness()
    old = harness.classic()
    harness.beat(0)
    generation = harness.join(old).generation_id
    harness.sync(old, generation)
    for _ in range(5):
        assert harness.kind == "consumer"
        harness.now += 9_000
        harness.ask(HeartbeatRequest(group_id="g", generation_id=generation, member_id=old), 3)
    assert harness.kind == "classic"


def test_classic_member_is_removed_when_it_misses_the_rejoin_timeout() -> None:
    harness = Harness()
    old = harness.classic()
    harness.beat(0)
    for _ in range(3):
        harness.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id=old), 3)
        harness.now += 5_000
    harness.beat(2)
    assert list(harness.shard.state.groups["g"].members) == ["new"]  # type: ignore[attr-defined]


# The middle of a rebalance: the classic member has both partitions, and has no response yet.


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_classic_members_partitions_survive_downgrade_and_upgrade(is_reloaded: bool) -> None:
    harness = Harness()
    old = harness.classic()
    harness.beat(0)
    harness.beat(-1)
    assert harness.kind == "classic"
    if is_reloaded:
        harness.reload()
    assert harness.given("other") == [], "the old member has not been asked to revoke"
    again = harness.join(old, 0, 1)
    harness.sync(old, again.generation_id)
    assert harness.given("other") == [], "the old member has its assignment, but has not reported the revocation"
    harness.join(old, 0)
    assert harness.given("other") == [1]


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_classic_member_keeps_all_partitions_after_two_consumer_members_leave(is_reloaded: bool) -> None:
    """No member with a pending target is left: the classic member keeps all partitions."""
    harness = Harness()
    old = harness.classic()
    for _ in range(2):
        harness.beat(0)
        harness.beat(-1)
    if is_reloaded:
        harness.reload()
    assert harness.given("other") == []
    assert harness.group(ConsumerGroup).holders == {(T, 0): old, (T, 1): old}


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_remaining_member_must_rejoin_after_downgrade_and_failover(is_reloaded: bool) -> None:
    """Without the rebalance the partitions of the last new-protocol member would never be assigned."""
    harness = Harness()
    old = harness.classic()
    generation = harness.beat(0).member_epoch
    harness.join(old)
    harness.sync(old, generation)
    assert harness.given("new") == [1]
    harness.beat(-1)
    if is_reloaded:
        harness.reload()
    # A heartbeat with the group's generation.
    beat = HeartbeatRequest(group_id="g", generation_id=harness.group(ClassicGroup).generation_id, member_id=old)
    assert harness.ask(beat, 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = harness.join(old, 0)
    harness.sync(old, again.generation_id, 0, 1)
    harness.reload()
    beat = HeartbeatRequest(group_id="g", generation_id=again.generation_id, member_id=old)
    assert harness.ask(beat, 3).error_code == 0, "a completed rebalance does not start again"


def test_partitions_survive_upgrade_during_rebalance() -> None:
    harness = Harness()
    old = harness.classic()
    # The leader's JoinGroup starts a rebalance, and another member joins before the assignment.
    harness.join(old, 0, 1)
    other = harness.join_too()
    assert not harness.group(ClassicGroup).members[old].assignment
    assert harness.given("new") == []
    group = harness.group(ConsumerGroup)
    assert group.holders == {(T, 0): old, (T, 1): old}
    assert other in group.members


def test_partition_stays_unassigned_until_cooperative_member_revokes_it() -> None:
    harness = Harness()
    old = harness.classic()
    generation = harness.join(old, 0, 1).generation_id
    assert harness.sync(old, generation, 0).error_code == 0
    assert harness.given("new") == [], "the member of the stable classic group has not rejoined yet"
    harness.join(old, 0)
    assert harness.given("new") == [1]


def test_assignment_takes_precedence_over_partitions_reported_at_join() -> None:
    """The assignment is newer than the reported partitions of the JoinGroup."""
    harness = Harness()
    old = harness.classic()
    harness.join(old, 0, 1)
    other = harness.join_too()
    generation = harness.join(old, 0).generation_id
    part = ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[0])
    given = VERSION + encode(ConsumerProtocolAssignment(assigned_partitions=[part]), 1)
    request = SyncGroupRequest(
        group_id="g",
        generation_id=generation,
        member_id=old,
        assignments=[SyncGroupRequestAssignment(member_id=other, assignment=given)],
    )
    assert harness.ask(request, 3).error_code == 0
    harness.beat(0)
    assert harness.group(ConsumerGroup).holders[T, 0] == other


# Bugs that the simulation of migrations found.


def test_classic_member_keeps_its_session_timeout_after_failover() -> None:
    """The session timeout of a classic member is its own, not the group's, also after a coordinator change."""
    harness = Harness()
    harness.classic()
    harness.beat(0)
    harness.reload()
    session_ms = harness.config.consumer_session_timeout_ms
    assert session_ms > 10_000
    harness.now += 10_000
    harness.beat(2)
    assert list(harness.group(ConsumerGroup).members) == ["new"]


def test_static_member_gets_all_partitions_when_it_upgrades_during_rebalance() -> None:
    """The member changes nothing, so nothing else would trigger an assignment, and no partition would be assigned."""
    harness = Harness()
    assert harness.join(version=5, instance_id="i").error_code == 0
    response = harness.beat(0, instance_id="i")
    assert [topic.partitions for topic in response.assignment.topic_partitions] == [[0, 1]]


def test_stable_group_keeps_assignment_when_static_member_upgrades() -> None:
    harness = Harness()
    old = harness.join(version=5, instance_id="i").member_id
    harness.sync(old, 1, 0, 1)
    response = harness.beat(0, instance_id="i")
    assert (response.member_epoch, [topic.partitions for topic in response.assignment.topic_partitions]) == (
        1,
        [[0, 1]],
    )


def test_new_partitions_are_assigned_when_static_leader_upgrades() -> None:
    """The topic has grown, and the leader has left before it noticed."""
    harness = Harness()
    old = harness.join(version=5, instance_id="i").member_id
    harness.sync(old, 1, 0, 1)
    harness.shard.handle(MetadataChanged(image_of({"t": 3}), frozenset({"t"})), harness.now)
    response = harness.beat(0, instance_id="i")
    assert [topic.partitions for topic in response.assignment.topic_partitions] == [[0, 1, 2]]


def test_outdated_ownership_claim_at_upgrade_is_ignored() -> None:
    """The member was away while another member got the partition, and returns while the group is briefly a classic one."""
    harness = Harness()
    old = harness.classic()
    harness.beat(0)
    other = harness.join().member_id
    harness.beat(-1)
    assert harness.join(other, 1) is None, "JoinGroup waits for the first member"
    assert harness.given("new") == []
    group = harness.group(ConsumerGroup)
    assert group.holders == {(T, 0): old, (T, 1): old}
    assert set(group.members[other].held()) == set()


def test_member_epoch_is_positive_after_upgrade_without_generation() -> None:
    """With member epoch 0 its next heartbeat would be a join."""
    harness = Harness()
    harness.config = replace(harness.config, initial_rebalance_delay_ms=3_000)
    harness.reload()
    assert harness.join() is None
    assert harness.beat(0, regex="nothing.*").member_epoch > 0


def test_downgraded_group_is_restored_when_its_first_generation_was_compacted() -> None:
    """The records of the former consumer group are still in the log."""
    harness = Harness()
    old = harness.classic()
    harness.beat(0)
    harness.beat(-1)
    generation = harness.join(old, 0, 1).generation_id
    assert harness.sync(old, generation, 0, 1).error_code == 0
    harness.shard = load_batches(harness.config, compacted(harness.batches), harness.now, image_of({"t": 2}))
    beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=old)
    assert harness.ask(beat, 3).error_code == 0, "no rebalance is in progress"
    assert harness.given("new") == []
    assert harness.group(ConsumerGroup).holders == {(T, 0): old, (T, 1): old}


def test_assignments_are_known_when_compaction_left_only_classic_group() -> None:
    """The last static member of the new protocol returned with the old one, so the group was downgraded at once."""
    harness = Harness()
    harness.beat(0, instance_id="i")
    response = harness.join(version=5, instance_id="i")
    assert harness.kind == "classic"
    assert response.generation_id == harness.group(ClassicGroup).generation_id > 0
    harness.shard = load_batches(harness.config, compacted(harness.batches), harness.now, image_of({"t": 2}))
    assert harness.given("other") == []
    assert harness.group(ConsumerGroup).holders == {(T, 0): response.member_id, (T, 1): response.member_id}


@pytest.mark.parametrize(
    ("fields", "version", "error"),
    [
        ({"protocol_type": "connect"}, 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, 5, ErrorCode.NONE),
        ({"member_id": "unknown"}, 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 1}, 3, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_sync_of_classic_member_in_consumer_group_is_validated(
    fields: dict[str, object], version: int, error: ErrorCode
) -> None:
    harness = Harness()
    old = harness.classic()
    harness.beat(0)
    again = harness.join(old)
    request = SyncGroupRequest(group_id="g", generation_id=again.generation_id, member_id=old)
    response = harness.ask(replace(request, **fields), version)
    assert response.error_code == error
    assert bool(response.assignment) == (error is ErrorCode.NONE)


@pytest.mark.parametrize("epoch_ahead", [1, 7])
def test_commit_of_classic_member_with_later_generation_has_an_error_of_its_protocol(epoch_ahead: int) -> None:
    harness = Harness()
    old = harness.classic()
    harness.beat(0)
    generation = harness.join(old).generation_id
    harness.sync(old, generation)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    codes = []
    for member_id, epoch in (
        (old, generation),
        (old, generation + epoch_ahead),
        ("new", harness.group(ConsumerGroup).members["new"].epoch + epoch_ahead),
    ):
        request = OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=epoch, member_id=member_id, topics=topics
        )
        codes.append(harness.ask(request, 9).topics[0].partitions[0].error_code)
    assert codes == [0, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH]


@pytest.mark.parametrize("rack", [None, "rack-a"])
def test_upgraded_member_keeps_its_rack(rack: str | None) -> None:
    harness = Harness()
    said = b"\0\3" + encode(ConsumerProtocolSubscription(topics=["t"], rack_id=rack), 3)
    old = harness.join(metadata=said).member_id
    assert harness.sync(old, 1, 0, 1).error_code == 0
    harness.beat(0)
    (described,) = harness.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert {member.member_id: member.rack_id for member in described.members} == {old: rack, "new": None}


def test_sync_of_classic_member_after_a_new_assignment_starts_its_rebalance() -> None:
    """Partitions of the generation before belong to another member now."""
    harness = Harness()
    old = harness.classic()
    harness.beat(0)
    generation = harness.join(old).generation_id
    harness.beat(0, member_id="newer")
    response = harness.sync(old, generation)
    assert (response.error_code, response.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
