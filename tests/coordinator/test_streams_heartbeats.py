"""Heartbeats of streams groups: each check at its limit, what a response repeats, and what a topology decides."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.coordinator.groups.streams.response import NeedsTopics
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.key_values import KeyValue
from odradek.protocol.messages.streams_group_heartbeat import (
    HeartbeatCopartitionGroup,
    HeartbeatSubtopology,
    HeartbeatTopology,
)
from odradek.protocol.messages.streams_members import TaskIds, TaskOffset, UserEndpoint
from odradek.protocol.messages.streams_topics import StreamsTopic

from tests.coordinator.harness.streams_groups import tasks
from tests.coordinator.streams_harness import CURRENT, JOINED, TOPICS, Harness, topology


@pytest.fixture
def harness() -> Harness:
    return Harness()


def statuses(response: Any) -> list[tuple[int, str]]:
    return [(int(one.status_code), one.status_detail) for one in response.status]


def beaten(harness: Harness, member: str, epoch: int, **fields: Any) -> Any:
    """Returns the response without the topics that it needs."""
    found = harness.beat(member, epoch, **fields)[0]
    return found.response if isinstance(found, NeedsTopics) else found


# ---- checks


ONE_TASK = [TaskIds("0", [0])]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"standby_tasks": ONE_TASK}, "StandbyTasks must be empty when (re-)joining."),
        ({"warmup_tasks": ONE_TASK}, "WarmupTasks must be empty when (re-)joining."),
        ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
        ({"standby_tasks": None}, "StandbyTasks must be empty when (re-)joining."),
        ({"epoch": 2}, "Topology can only be provided when (re-)joining."),
        ({"epoch": 2, "topology": None, "standby_tasks": None}, "If one task-type is non-null, all must be non-null."),
        (
            {
                "topology": HeartbeatTopology(
                    subtopologies=[HeartbeatSubtopology("0", source_topics=["in"], source_topic_regex=["i.*"])]
                )
            },
            "Regular expressions for source topics are not supported yet.",
        ),
    ],
)
def test_incomplete_heartbeat_is_invalid(harness: Harness, fields: dict[str, Any], words: str) -> None:
    defaults = {"topology": topology(), "rebalance_timeout_ms": 5, "active_tasks": [], "standby_tasks": []}
    roles = defaults | {"warmup_tasks": []} | fields
    response, records = harness.beat("a", roles.pop("epoch", 0), **roles)
    assert (response.error_code, response.error_message, records) == (ErrorCode.INVALID_REQUEST, words, [])


@pytest.mark.parametrize(("partitions", "is_valid"), [(0, True), (1, False), (-1, False)])
def test_changelog_has_no_number_of_partitions_of_its_own(harness: Harness, partitions: int, is_valid: bool) -> None:
    made = topology()
    made.subtopologies[1].state_changelog_topics[0].partitions = partitions
    response, _ = harness.beat("a", 0, topology=made)
    assert response.error_code == (ErrorCode.NONE if is_valid else ErrorCode.STREAMS_INVALID_TOPOLOGY)
    if not is_valid:
        assert f"Changelog topic counts must have an undefined partition count, but it is set to {partitions}." in (
            response.error_message
        )


@pytest.mark.parametrize(
    ("owned", "words"),
    [
        ({"0": [1]}, None),
        ({"0": [2]}, "Task 2 for subtopology 0 is invalid. Number of tasks for this subtopology: 2"),
        ({"0": [-1]}, "Task -1 for subtopology 0 is invalid. Number of tasks for this subtopology: 2"),
        ({"9": [0]}, "Subtopology 9 does not exist in the topology."),
    ],
)
@pytest.mark.parametrize("role", ["active_tasks", "standby_tasks", "warmup_tasks"])
def test_reported_tasks_are_those_of_the_topology(
    harness: Harness, owned: dict[str, list[int]], words: str | None, role: str
) -> None:
    harness.beat("a", 0)
    said = {name: [] for name in ("active_tasks", "standby_tasks", "warmup_tasks")}
    said[role] = [TaskIds(name, found) for name, found in owned.items()]  # type: ignore[misc]
    response, _ = harness.beat("a", 2, **said)
    assert response.error_message == words
    assert response.error_code == (ErrorCode.NONE if words is None else ErrorCode.INVALID_REQUEST)


def test_tasks_of_a_topology_without_its_topics_are_not_checked(harness: Harness) -> None:
    harness.topics({"in": 2})
    harness.beat("a", 0)
    assert beaten(harness, "a", 2, owned={"9": [7]}).error_code == 0


def test_group_of_full_size_takes_only_members_that_it_has() -> None:
    harness = Harness(max_size=2)
    harness.beat("a", 0)
    assert harness.beat("b", 0, instance_id="i")[0].error_code == 0
    response, records = harness.beat("c", 0)
    assert (response.error_code, records) == (ErrorCode.GROUP_MAX_SIZE_REACHED, [])
    assert harness.beat("a", 0)[0].error_code == 0, "a member that joins again"
    harness.beat("b", -2, instance_id="i")
    assert harness.beat("d", 0, instance_id="i")[0].error_code == 0, "a static member that comes back"
    assert harness.beat("e", 0, instance_id="j")[0].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_previous_epoch_is_valid_with_no_more_tasks_than_the_assigned_ones(harness: Harness) -> None:
    """The member has missed the last response."""
    harness.beat("a", 0)
    harness.beat("b", 0)
    harness.beat("a", 2)
    harness.beat("a", 2, {"0": [0], "1": [0]})
    member = harness.group.members["a"]
    assert (member.epoch, member.previous_epoch) == (3, 2)
    for owned, is_valid in (({"0": [0]}, True), ({}, True), ({"0": [0, 1]}, False), (None, False)):
        response, _ = harness.beat("a", 2, owned)
        assert response.error_code == (0 if is_valid else ErrorCode.FENCED_MEMBER_EPOCH)
    assert harness.beat("a", 1, {"0": [0]})[0].error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.beat("a", 4, {"0": [0]})[0].error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.beat("a", 3)[0].error_code == 0


def test_member_that_leaves_is_checked_and_removed(harness: Harness) -> None:
    harness.beat("a", 0)
    harness.beat("b", 0)
    response, records = harness.beat("b", -1)
    assert (response.member_id, response.member_epoch, response.error_code) == ("b", -1, 0)
    assert records[:3] == [f"-{CURRENT}", "-TargetAssignmentMember", "-MemberMetadata"]
    assert harness.beat("b", -1)[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    harness.beat("c", 0, instance_id="i")
    assert harness.beat("c", -1, instance_id="i")[1][:3] == records[:3], "a static member that leaves for good"


def test_shutdown_that_a_leaving_member_requests_is_sent_to_the_others(harness: Harness) -> None:
    for member in ("a", "b", "c"):
        harness.beat(member, 0)
    harness.beat("c", -1, shutdown_application=True)
    harness.beat("b", -1, shutdown_application=True)
    (status,) = statuses(harness.beat("a", 2)[0])
    assert status[0] == 4 and "Streams group member c encountered" in status[1], "the first one is named"


# ---- what the group keeps of a member


def test_omitted_fields_of_a_heartbeat_keep_their_values(harness: Harness) -> None:
    endpoint, tags = UserEndpoint("h", 7), [KeyValue("zone", "b"), KeyValue("cluster", "x")]
    harness.beat("a", 0, user_endpoint=endpoint, client_tags=tags, rack_id="r", instance_id="i", topology=topology(4))
    before = harness.group.members["a"].metadata
    assert [(tag.key, tag.value) for tag in before.client_tags] == [("cluster", "x"), ("zone", "b")]
    assert (before.rack_id, before.instance_id, before.topology_epoch, before.process_id) == ("r", "i", 4, "p-a")
    assert (before.rebalance_timeout_ms, before.client_id, before.client_host) == (30_000, "c", "/h")
    harness.beat("a", 2, instance_id="i")
    assert harness.group.members["a"].metadata == before
    assert before.user_endpoint is not None and (before.user_endpoint.host, before.user_endpoint.port) == ("h", 7)
    harness.beat("a", 2, instance_id="i", rebalance_timeout_ms=5, rack_id="s", process_id="q", client_tags=[])
    after = harness.group.members["a"].metadata
    assert (after.rebalance_timeout_ms, after.rack_id, after.process_id, after.client_tags) == (5, "s", "q", [])
    harness.beat("a", -2, instance_id="i")
    harness.beat("a", 0, instance_id="i", topology=topology(4))
    assert harness.group.members["a"].metadata.user_endpoint is None, "a member that joins again names its endpoint"


@pytest.mark.parametrize(
    ("changes", "is_static", "starts_assignment"),
    [
        ({}, False, False),
        ({"rebalance_timeout_ms": 7}, False, True),
        ({"rebalance_timeout_ms": 7}, True, False),
        ({"user_endpoint": UserEndpoint("h", 7)}, True, False),
        ({"rack_id": "r"}, True, True),
        ({"process_id": "q"}, True, True),
        ({"client_tags": [KeyValue("zone", "b")]}, True, True),
    ],
)
def test_changed_member_needs_another_assignment_unless_it_is_static_and_only_moved(
    harness: Harness, changes: dict[str, Any], is_static: bool, starts_assignment: bool
) -> None:
    instance = {"instance_id": "i"} if is_static else {}
    harness.beat("a", 0, **instance)
    epoch = harness.group.epoch
    _, records = harness.beat("a", 2, **instance, **changes)
    assert harness.group.epoch == epoch + starts_assignment
    assert ("MemberMetadata" in records) == bool(changes)


def test_changed_topics_need_another_assignment(harness: Harness) -> None:
    harness.beat("a", 0)
    assert harness.shard.state.counters.streams_rebalances == 1
    harness.topics(dict.fromkeys(TOPICS, 3))
    response, records = harness.beat("a", 2)
    assert records == ["Metadata", *JOINED[3:], CURRENT] and tasks(response.active_tasks) == {
        "0": [0, 1, 2],
        "1": [0, 1, 2],
    }
    assert harness.shard.state.counters.streams_rebalances == 2
    harness.topics(dict.fromkeys(TOPICS, 3))
    assert harness.beat("a", 3)[1] == []
    assert harness.shard.state.counters.streams_rebalances == 2


def test_reported_offsets_of_tasks_are_kept_by_member(harness: Harness) -> None:
    harness.beat("a", 0)
    ends = [TaskOffset("0", 1, 9)]
    harness.beat("a", 2, task_offsets=[TaskOffset("0", 0, 5)], task_end_offsets=ends)
    group = harness.group
    assert {who: {tuple(task): at for task, at in of.items()} for who, of in group.task_offsets.items()} == {
        "a": {("0", 0): 5}
    }
    assert {tuple(task): at for task, at in group.task_end_offsets["a"].items()} == {("0", 1): 9}
    harness.beat("a", 2)
    assert group.task_offsets["a"] and group.task_end_offsets["a"], "a heartbeat without any changes none"
    odd = [TaskOffset("0", 1 << 30, 1), TaskOffset("0", -1, 1), TaskOffset("none", 0, 1), TaskOffset("0", 1, 7)]
    harness.beat("a", 2, task_offsets=odd, task_end_offsets=odd)
    kept = [{tuple(task): at for task, at in of["a"].items()} for of in (group.task_offsets, group.task_end_offsets)]
    assert kept == [{("0", 1): 7}] * 2, "those of tasks that do not exist would fill the memory"
    harness.beat("a", 2, task_offsets=[])
    assert group.task_offsets["a"] == {} and group.task_end_offsets["a"]
    harness.beat("a", -1)
    assert "a" not in group.task_offsets and "a" not in group.task_end_offsets


def test_session_and_revocation_have_their_times(harness: Harness) -> None:
    harness.beat("a", 0, rebalance_timeout_ms=700)
    harness.beat("b", 0)
    timeout_ms = harness.shard.state.config.streams.session_timeout_ms
    group = harness.group
    assert group.session("a").deadline_ms == harness.now + timeout_ms
    harness.now += 5
    harness.beat("a", 2)
    assert group.session("a").deadline_ms == harness.now + timeout_ms
    assert group.revocation("a").deadline_ms == harness.now + 700
    harness.now += 5
    harness.beat("a", 2)
    assert group.revocation("a").deadline_ms == harness.now + 695, "it lasts from the first response on"
    harness.beat("a", 2, {"0": [0], "1": [0]})
    assert not group.revocation("a").is_set


# ---- responses


def test_full_heartbeat_gets_its_tasks_again(harness: Harness) -> None:
    """A client sends all fields when a response may have been lost."""
    harness.beat("a", 0)
    owned = {"0": [0, 1], "1": [0, 1]}
    response, _ = harness.beat("a", 2, owned, rebalance_timeout_ms=30_000)
    assert tasks(response.active_tasks) == owned and (response.standby_tasks, response.warmup_tasks) == ([], [])
    assert harness.beat("a", 2, owned)[0].active_tasks is None
    assert harness.beat("a", 2, rebalance_timeout_ms=30_000)[0].active_tasks is None


def test_settings_of_the_group_are_in_each_response() -> None:
    harness = Harness(heartbeat_interval_ms=11, task_offset_interval_ms=12, acceptable_recovery_lag=13)
    response, _ = harness.beat("a", 0)
    found = (response.heartbeat_interval_ms, response.task_offset_interval_ms, response.acceptable_recovery_lag)
    assert found == (11, 12, 13)


@pytest.mark.parametrize(("version", "is_told"), [(0, False), (1, True)])
def test_missing_tags_are_reported_to_clients_that_know_the_status(version: int, is_told: bool) -> None:
    harness = Harness(rack_aware_assignment_tags=("zone", "cluster"))
    response, _ = harness.beat("a", 0, version=version, client_tags=[KeyValue("zone", "b")])
    words = (
        "Missing required client tags for rack-aware standby assignment: [cluster]. Configure them via "
        "'client.tag.<tagKey>' in your Streams config."
    )
    assert statuses(response) == ([(6, words)] if is_told else [])
    tags = [KeyValue("zone", "b"), KeyValue("cluster", "c")]
    assert statuses(harness.beat("b", 0, version=version, client_tags=tags)[0]) == []


def test_member_with_an_older_topology_gets_a_status(harness: Harness) -> None:
    harness.beat("a", 0, topology=topology(3))
    (status,) = statuses(harness.beat("b", 0, topology=topology(2))[0])
    assert status == (0, "The member's topology epoch 2 is behind the group's topology epoch 3.")
    assert statuses(harness.beat("c", 0, topology=topology(3))[0]) == []
    response, records = harness.beat("d", 0, topology=topology(4))
    assert (response.error_code, records) == (ErrorCode.INVALID_REQUEST, [])


def test_endpoints_are_sent_to_members_that_have_older_ones(harness: Harness) -> None:
    response, _ = harness.beat("a", 0, user_endpoint=UserEndpoint("h", 1))
    assert response.endpoint_information_epoch == 0, "the group did not exist before"
    response, _ = harness.beat("b", 0, user_endpoint=UserEndpoint("h", 2))
    assert response.endpoint_information_epoch == 1
    assert [one.user_endpoint.port for one in response.partitions_by_user_endpoint] == [1, 2]
    assert harness.beat("b", 3, endpoint_information_epoch=1)[0].partitions_by_user_endpoint is None
    assert harness.beat("b", 3, endpoint_information_epoch=0)[0].partitions_by_user_endpoint is not None
    response, _ = harness.beat("a", 2, endpoint_information_epoch=1)
    assert response.endpoint_information_epoch == 2, "its tasks have changed"
    assert [one.user_endpoint.port for one in response.partitions_by_user_endpoint] == [2, 1]
    harness.beat("c", 0)
    assert harness.beat("c", 4, endpoint_information_epoch=2)[0].endpoint_information_epoch == 2
    response, _ = harness.beat("b", 3, endpoint_information_epoch=2, user_endpoint=UserEndpoint("h", 3))
    assert response.endpoint_information_epoch == 3


# ---- topologies


def shown(response: Any) -> list[tuple[int, str]]:
    return statuses(response.response if isinstance(response, NeedsTopics) else response)


@pytest.mark.parametrize(
    ("counts", "fixed", "expected"),
    [
        ({"in": 3}, 0, {"shuffled": 3, "counts": 3}),
        ({"in": 3}, 5, {"shuffled": 5, "counts": 5}),
        ({"in": 3, "shuffled": 3}, 0, {"counts": 3}),
        ({"in": 3, "counts": 3}, 0, {"shuffled": 3}),
        ({"in": 1}, 1, {"shuffled": 1, "counts": 1}),
    ],
)
def test_internal_topics_have_the_partitions_of_the_widest_input_or_their_own(
    harness: Harness, counts: dict[str, int], fixed: int, expected: dict[str, int]
) -> None:
    harness.topics(counts)
    made = topology()
    made.subtopologies[1].repartition_source_topics[0].partitions = fixed
    found, _ = harness.beat("a", 0, topology=made)
    assert isinstance(found, NeedsTopics)
    assert {topic.name: topic.num_partitions for topic in found.topics} == expected
    assert {topic.replication_factor for topic in found.topics} == {-1}
    assert [code for code, _ in shown(found)] == [3]


def test_widest_of_several_inputs_decides(harness: Harness) -> None:
    harness.topics({"in": 2, "other": 4})
    reader = HeartbeatSubtopology("0", source_topics=["in", "other"], repartition_sink_topics=["x"])
    middle = HeartbeatSubtopology("1", repartition_source_topics=[StreamsTopic("x")], repartition_sink_topics=["y"])
    last = HeartbeatSubtopology("2", repartition_source_topics=[StreamsTopic("y", replication_factor=3)])
    found, _ = harness.beat("a", 0, topology=HeartbeatTopology(subtopologies=[last, middle, reader]))
    assert [(one.name, one.num_partitions, one.replication_factor) for one in found.topics] == [
        ("y", 4, 3),
        ("x", 4, -1),
    ]


def test_topics_that_feed_each_other_are_an_invalid_topology(harness: Harness) -> None:
    one = HeartbeatSubtopology("0", repartition_source_topics=[StreamsTopic("x")], repartition_sink_topics=["y"])
    other = HeartbeatSubtopology("1", repartition_source_topics=[StreamsTopic("y")], repartition_sink_topics=["x"])
    response, _ = harness.beat("a", 0, topology=HeartbeatTopology(subtopologies=[one, other]))
    assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY and "There may be loops" in response.error_message
    response, _ = harness.beat("a", 0, topology=HeartbeatTopology(subtopologies=[HeartbeatSubtopology("0")]))
    assert response.error_message == "No source topics found for subtopology 0"


@pytest.mark.parametrize(("missing", "words"), [(3, "s0, s1, s2"), (4, "s0, s1, s2 and 1 additional topics")])
def test_status_names_the_first_missing_topics(harness: Harness, missing: int, words: str) -> None:
    names = [f"s{number}" for number in range(missing)]
    made = HeartbeatTopology(subtopologies=[HeartbeatSubtopology("0", source_topics=names)])
    assert shown(harness.beat("a", 0, topology=made)[0]) == [(1, f"Source topics {words} are missing.")]


@pytest.mark.parametrize(
    ("counts", "fixed", "expected"),
    [
        ({"in": 2, "other": 2}, (0, 0), {"x": 2}),
        ({"in": 2, "other": 3}, (0, 0), "in=2, other=3"),
        ({"in": 2}, (2, 0), {"x": 2}),
        ({"in": 2}, (3, 0), "Number of partitions [3] of repartition topic [x] doesn't match number of partitions [2]"),
    ],
)
def test_copartitioned_topics_agree_with_the_source_topics(
    harness: Harness, counts: dict[str, int], fixed: tuple[int, int], expected: dict[str, int] | str
) -> None:
    harness.topics(counts)
    sources = sorted(counts)
    joined = HeartbeatSubtopology(
        "0",
        source_topics=sources,
        repartition_source_topics=[StreamsTopic("x", partitions=fixed[0])],
        copartition_groups=[HeartbeatCopartitionGroup(list(range(len(sources))), [], [0])],
    )
    writer = HeartbeatSubtopology("1", source_topics=["in"], repartition_sink_topics=["x"])
    found, _ = harness.beat("a", 0, topology=HeartbeatTopology(subtopologies=[joined, writer]))
    if isinstance(expected, str):
        ((code, words),) = shown(found)
        assert code == 2 and expected in words
    else:
        assert {topic.name: topic.num_partitions for topic in found.topics} == expected


@pytest.mark.parametrize(
    ("fixed", "expected"),
    [((0, 0), {"x": 4, "y": 4}), ((3, 0), {"x": 3, "y": 3}), ((3, 3), {"x": 3, "y": 3}), ((3, 5), "[{x=3, y=5}]")],
)
def test_copartitioned_internal_topics_agree_with_each_other(
    harness: Harness, fixed: tuple[int, int], expected: dict[str, int] | str
) -> None:
    harness.topics({"in": 2, "other": 4})
    writers = [
        HeartbeatSubtopology("0", source_topics=["in"], repartition_sink_topics=["x"]),
        HeartbeatSubtopology("1", source_topics=["other"], repartition_sink_topics=["y"]),
    ]
    joined = HeartbeatSubtopology(
        "2",
        repartition_source_topics=[StreamsTopic("x", partitions=fixed[0]), StreamsTopic("y", partitions=fixed[1])],
        copartition_groups=[HeartbeatCopartitionGroup([], [], [0, 1])],
    )
    found, _ = harness.beat("a", 0, topology=HeartbeatTopology(subtopologies=[*writers, joined]))
    if isinstance(expected, str):
        ((code, words),) = shown(found)
        assert code == 2 and expected in words
    else:
        assert {topic.name: topic.num_partitions for topic in found.topics} == expected


def test_topology_is_the_same_in_any_order_of_its_subtopologies(harness: Harness) -> None:
    harness.beat("a", 0)
    made = topology()
    made.subtopologies.reverse()
    assert harness.beat("b", 0, topology=made)[0].error_code == 0
    made.subtopologies[0].source_topics = ["other"]
    assert harness.beat("c", 0, topology=made)[0].error_code == ErrorCode.INVALID_REQUEST
