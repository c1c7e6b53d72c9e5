"""Streams groups request by request: the replies, and the exact records in Kafka's order."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.coordinator.groups.streams.response import NeedsTopics
from odradek.coordinator.groups_config import GroupsConfig, StreamsGroupsConfig
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from odradek.protocol.messages.streams_group_heartbeat import (
    HeartbeatCopartitionGroup,
    HeartbeatSubtopology,
    HeartbeatTopology,
)
from odradek.protocol.messages.streams_members import UserEndpoint
from odradek.protocol.messages.streams_topics import StreamsTopic

from tests.coordinator.harness.streams_groups import tasks
from tests.coordinator.streams_harness import CURRENT, JOINED, TOPICS, Harness, topology


def statuses(response: Any) -> list[int]:
    return [int(status.status_code) for status in response.status]


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_first_member_sets_topology_and_gets_all_tasks(harness: Harness) -> None:
    response, records = harness.beat("a", 0)
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "a", 2)
    assert tasks(response.active_tasks) == {"0": [0, 1], "1": [0, 1]}
    assert (response.standby_tasks, response.warmup_tasks, response.status) == ([], [], [])
    assert records == [*JOINED, CURRENT]
    response, records = harness.beat("a", 2)
    assert (response.active_tasks, records) == (None, [])


def test_task_moves_after_its_owner_revokes_it(harness: Harness) -> None:
    harness.beat("a", 0)
    response, records = harness.beat("b", 0)
    assert (response.member_epoch, tasks(response.active_tasks)) == (3, {})
    assert records == [JOINED[0], "Metadata", *JOINED[3:4] * 2, JOINED[4], CURRENT]
    response, records = harness.beat("a", 2)
    assert (response.member_epoch, tasks(response.active_tasks)) == (2, {"0": [0], "1": [0]})
    assert records == [CURRENT]
    assert harness.beat("a", 2, {"0": [0, 1], "1": [0]})[1] == [], "the member has not revoked all tasks"
    assert tasks(harness.beat("b", 3)[0].active_tasks) is None
    response, _ = harness.beat("a", 2, {"0": [0], "1": [0]})
    assert (response.member_epoch, response.active_tasks) == (3, None)
    assert tasks(harness.beat("b", 3)[0].active_tasks) == {"0": [1], "1": [1]}
    assert harness.group.state.value == "Stable"


def test_tasks_are_assigned_after_internal_topics_are_created(harness: Harness) -> None:
    harness.topics({"in": 3})
    needs, _ = harness.beat("a", 0)
    assert isinstance(needs, NeedsTopics)
    assert [(topic.name, topic.num_partitions, topic.replication_factor) for topic in needs.topics] == [
        ("shuffled", 3, -1),
        ("counts", 3, -1),
    ]
    (status,) = needs.response.status
    assert (status.status_code, status.status_detail) == (3, "Internal topics are missing: shuffled, counts")
    assert harness.group.state.value == "NotReady"
    harness.topics({"in": 3, "shuffled": 3, "counts": 3})
    response, records = harness.beat("a", 2)
    assert (response.member_epoch, tasks(response.active_tasks)) == (3, {"0": [0, 1, 2], "1": [0, 1, 2]})
    assert records == ["Metadata", *JOINED[3:], CURRENT]


@pytest.mark.parametrize(
    ("counts", "status", "words"),
    [
        ({}, 1, "Source topics in are missing."),
        (
            TOPICS | {"counts": 5},
            2,
            "Existing topic counts has different number of partitions: expected 2, found 5",
        ),
    ],
)
def test_topic_problem_is_returned_as_status(harness: Harness, counts: dict[str, int], status: int, words: str) -> None:
    harness.topics(counts)
    response, _ = harness.beat("a", 0)
    assert (response.error_code, tasks(response.active_tasks)) == (0, {})
    assert [(one.status_code, one.status_detail) for one in response.status] == [(status, words)]


def test_copartitioned_topics_must_have_equal_partition_counts(harness: Harness) -> None:
    harness.topics({"in": 2, "other": 3})
    joined = HeartbeatSubtopology(
        subtopology_id="0",
        source_topics=["in", "other"],
        copartition_groups=[HeartbeatCopartitionGroup(source_topics=[0, 1])],
    )
    response, _ = harness.beat("a", 0, topology=HeartbeatTopology(subtopologies=[joined]))
    words = "Following topics do not have the same number of partitions: [{in=2, other=3}]"
    assert [(one.status_code, one.status_detail) for one in response.status] == [(2, words)]


def test_repartition_topic_without_writer_is_invalid_topology(harness: Harness) -> None:
    reader = HeartbeatSubtopology(subtopology_id="0", repartition_source_topics=[StreamsTopic(name="never")])
    response, records = harness.beat("a", 0, topology=HeartbeatTopology(subtopologies=[reader]))
    assert (response.error_code, records) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, [])
    assert response.error_message.endswith("because a repartition source topic is never used as a sink topic.")


def test_initial_delay_defers_first_assignment() -> None:
    harness = Harness(initial_rebalance_delay_ms=3_000)
    response, records = harness.beat("a", 0)
    assert (statuses(response), tasks(response.active_tasks)) == ([5], {})
    assert (response.member_epoch, records) == (1, [*JOINED[:3], CURRENT])
    assert (harness.beat("b", 0)[0].member_epoch, harness.group.state.value) == (1, "Assigning")
    harness.now += 3_000
    harness.shard.expire(harness.now)
    assert [type(record.key).__name__ for record in harness.shard.take().records] == [
        "StreamsGroupTargetAssignmentMemberKey",
        "StreamsGroupTargetAssignmentMemberKey",
        "StreamsGroupTargetAssignmentMetadataKey",
    ]
    response, _ = harness.beat("a", 1)
    assert (statuses(response), tasks(response.active_tasks)) == ([], {"0": [0], "1": [0]})


def test_assignment_interval_defers_assignment() -> None:
    harness = Harness(assignment_interval_ms=1_000)
    harness.beat("a", 0)
    harness.now += 500
    response, _ = harness.beat("b", 0)
    assert (statuses(response), response.member_epoch) == ([5], 2)
    harness.now += 500
    response, _ = harness.beat("b", 2)
    assert (statuses(response), response.member_epoch) == ([], 3)


def test_standby_tasks_are_in_other_processes_only() -> None:
    harness = Harness(num_standby_replicas=1)
    alone, _ = harness.beat("a", 0)
    assert tasks(alone.standby_tasks) == {}
    harness.beat("a2", 0, process_id="p-a")
    assert harness.group.target_of("a").standby == harness.group.target_of("a2").standby == frozenset()
    harness.beat("b", 0)
    for process in (("a", "a2"), ("b",)):
        targets = [harness.group.target_of(member_id) for member_id in process]
        active = {task for target in targets for task in target.active if task.subtopology_id == "1"}
        copies = {task for target in targets for task in target.standby}
        assert not active & copies
        assert len(active) + len(copies) == 2


def test_changed_number_of_standby_replicas_increments_epoch(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.shard.state.config = GroupsConfig(
        streams=StreamsGroupsConfig(num_standby_replicas=1, assignment_interval_ms=0)
    )
    response, records = harness.beat("a", 2)
    assert (response.member_epoch, records) == (3, ["Metadata", "TargetAssignmentMetadata", CURRENT])


def test_member_is_removed_when_session_expires(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.now += 45_000
    harness.shard.expire(harness.now)
    names = [type(record.key).__name__.removeprefix("StreamsGroup") for record in harness.shard.take().records]
    assert names[-1] == "TargetAssignmentMetadataKey"
    assert not harness.group.members
    assert harness.beat("a", 2)[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_is_removed_after_revocation_timeout(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.beat("b", 0)
    harness.beat("a", 2)
    harness.now += 30_000
    harness.beat("b", 3)
    harness.shard.expire(harness.now)
    assert set(harness.group.members) == {"b"}


def test_returning_static_member_gets_its_tasks_back(harness: Harness) -> None:
    harness.beat("a", 0, instance_id="i")
    assert harness.beat("z", 0, instance_id="i")[0].error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    response, records = harness.beat("a", -2, instance_id="i")
    assert (response.member_epoch, records) == (-2, [CURRENT])
    response, records = harness.beat("z", 0, instance_id="i", process_id="p-a")
    assert records == [
        f"-{CURRENT}",
        "-TargetAssignmentMember",
        "-MemberMetadata",
        "MemberMetadata",
        "TargetAssignmentMember",
        CURRENT,
        CURRENT,
    ]
    assert tasks(response.active_tasks) == {"0": [0, 1], "1": [0, 1]}
    assert harness.beat("a", 2, instance_id="i")[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_instance_id_is_free_when_its_member_has_left_for_good(harness: Harness) -> None:
    harness.beat("a", 0, instance_id="i")
    assert harness.group.static_members == {"i": "a"}
    assert harness.beat("a", -1, instance_id="i")[0].error_code == ErrorCode.NONE
    assert harness.group.static_members == {}
    assert harness.beat("b", 0, instance_id="i")[0].error_code == ErrorCode.NONE
    assert harness.group.static_members == {"i": "b"}


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"member": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided"),
        ({"owned": {"0": [0]}}, ErrorCode.INVALID_REQUEST, "ActiveTasks must be empty when (re-)joining."),
        ({"topology": None}, ErrorCode.INVALID_REQUEST, "Topology must be non-null when (re-)joining."),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST, "InstanceId can't be null."),
        ({"epoch": 5}, ErrorCode.GROUP_ID_NOT_FOUND, "Streams group g not found."),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
        (
            {"epoch": 5, "active_tasks": []},
            ErrorCode.INVALID_REQUEST,
            "If one task-type is non-null, all must be non-null.",
        ),
    ],
)
def test_invalid_requests_get_errors(harness: Harness, fields: dict[str, Any], error: int, words: str) -> None:
    response, records = harness.beat(fields.pop("member", "a"), fields.pop("epoch", 0), **fields)
    assert (response.error_code, records) == (error, [])
    assert words in response.error_message


def test_wrong_member_epoch_is_fenced(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.beat("b", 0)
    assert "greater member epoch (7)" in harness.beat("a", 7)[0].error_message
    assert "smaller member epoch (1)" in harness.beat("b", 1)[0].error_message
    assert harness.beat("a", 2, {"0": [9], "1": []})[0].error_code == ErrorCode.INVALID_REQUEST
    assert harness.beat("c", 2)[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_older_topology_gets_status_and_changed_topology_fails() -> None:
    harness = Harness()
    harness.beat("a", 0, topology=topology(1))
    assert statuses(harness.beat("b", 0, topology=topology(0))[0]) == [0]
    response, _ = harness.beat("c", 0, topology=HeartbeatTopology(epoch=1, subtopologies=topology().subtopologies[:1]))
    assert response.error_message == "Topology updates are not supported yet."


def test_shutdown_request_of_one_member_is_sent_to_all(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.beat("b", 0)
    assert statuses(harness.beat("a", 2, shutdown_application=True)[0]) == [4]
    assert statuses(harness.beat("b", 3)[0]) == [4]


def test_response_has_partitions_by_user_endpoint(harness: Harness) -> None:
    harness.beat("a", 0)
    response, _ = harness.beat("b", 0, user_endpoint=UserEndpoint(host="h", port=7))
    assert response.endpoint_information_epoch == 1
    assert [one.user_endpoint.port for one in response.partitions_by_user_endpoint] == [7]
    harness.beat("a", 2)
    harness.beat("a", 2, {"0": [0], "1": [0]})
    response, _ = harness.beat("b", 3, endpoint_information_epoch=1)
    (reported,) = response.partitions_by_user_endpoint
    assert [(topic.topic, topic.partitions) for topic in reported.active_partitions] == [("in", [1]), ("shuffled", [1])]
    assert harness.beat("b", 3, endpoint_information_epoch=2)[0].partitions_by_user_endpoint is None


def test_streams_group_is_described_listed_and_deleted(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.beat("a", 2)
    response, _ = harness.ask(StreamsGroupDescribeRequest(group_ids=["g", "none"]))
    group, absent = response.groups
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Stable",
        2,
        2,
        "sticky",
    )
    (changelog,) = group.topology.subtopologies[1].state_changelog_topics
    assert (changelog.name, changelog.partitions) == ("counts", 2)
    assert tasks(group.members[0].assignment.active_tasks) == {"0": [0, 1], "1": [0, 1]}
    assert (absent.error_code, absent.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.")
    (listed,) = harness.ask(ListGroupsRequest(types_filter=["streams"]))[0].groups
    assert (listed.group_id, listed.protocol_type, listed.group_type) == ("g", "streams", "streams")
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]))[0].results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    harness.beat("a", -1)
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]))[1] == [
        "-TargetAssignmentMetadata",
        "-Metadata",
        "-Topology",
    ]


def test_partitions_of_user_endpoint_are_those_that_each_topic_has(harness: Harness) -> None:
    """A subtopology has as many tasks as its largest topic has partitions."""
    harness.topics(TOPICS | {"side": 1})
    reader = HeartbeatSubtopology(subtopology_id="0", source_topics=["in", "side"])
    endpoint = UserEndpoint(host="h", port=7)
    response, _ = harness.beat(
        "a", 0, topology=HeartbeatTopology(epoch=0, subtopologies=[reader]), user_endpoint=endpoint
    )
    assert tasks(response.active_tasks) == {"0": [0, 1]}
    (reported,) = response.partitions_by_user_endpoint
    assert {topic.topic: topic.partitions for topic in reported.active_partitions} == {"in": [0, 1], "side": [0]}
