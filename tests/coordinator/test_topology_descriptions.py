"""Topology descriptions (KIP-1331): requested, stored with the group, returned by describe, deleted with the group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from odradek.coordinator.groups.streams.response import NeedsTopics
from odradek.coordinator.result import GroupRequest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from odradek.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    UpdatedTopologyDescription,
    UpdatedTopologyDescriptionGlobalStore,
    UpdatedTopologyDescriptionNode,
    UpdatedTopologyDescriptionSubtopology,
)

from tests.coordinator.harness.kinds import KINDS, decode_record, encode_record
from tests.coordinator.streams_harness import Harness

Node = UpdatedTopologyDescriptionNode
Request = StreamsGroupTopologyDescriptionUpdateRequest
STORED = ["Topology", "Metadata"]
NOT_REQUESTED, NOT_STORED, AVAILABLE = 0, 1, 3
SECOND = 1_000


def description() -> UpdatedTopologyDescription:
    return UpdatedTopologyDescription(
        subtopologies=[
            UpdatedTopologyDescriptionSubtopology(
                subtopology_id="0",
                nodes=[
                    Node(name="source", node_type=1, source_topics=["in", "in"], successors=["count"]),
                    Node(name="count", node_type=2, stores=["counts"], successors=["sink"], sink_topic="nowhere"),
                    Node(name="sink", node_type=3, sink_topic="out", stores=["none"]),
                ],
            )
        ],
        global_stores=[
            UpdatedTopologyDescriptionGlobalStore(
                source=Node(name="all", node_type=1, source_topics=["countries"], successors=["keep"]),
                processor=Node(name="keep", node_type=2, stores=["countries"]),
            )
        ],
    )


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.beat("a", 0)
    return made


def update(harness: Harness, **fields: Any) -> tuple[Any, list[str]]:
    said = {"group_id": "g", "member_id": "a", "topology_epoch": 0, "topology_description": description()}
    return harness.ask(Request(**(said | fields)), 0)


def reported(harness: Harness, *, is_asked: bool = True, version: int = 1) -> Any:
    request = StreamsGroupDescribeRequest(group_ids=["g"], include_topology_description=is_asked)
    return harness.ask(request, version)[0].groups[0]


def is_asked(harness: Harness, version: int = 1) -> bool:
    response, _ = harness.beat("a", 2, version=version)
    assert not isinstance(response, NeedsTopics) and response.error_code == 0
    asked: bool = response.topology_description_required
    return asked


def test_description_is_requested_again_after_growing_waits() -> None:
    harness = Harness()
    response, _ = harness.beat("a", 0)
    assert response.topology_description_required
    for wait in (30, 60, 120):
        harness.now += wait * SECOND - 1
        assert not is_asked(harness)
        harness.now += 1
        assert is_asked(harness)
    for _ in range(10):
        harness.now += 3_600 * SECOND
        assert is_asked(harness), "the maximum wait is one hour"


def test_old_client_gets_no_request_and_does_not_delay_requests_to_others() -> None:
    harness = Harness()
    response, _ = harness.beat("a", 0, version=0)
    assert not response.topology_description_required
    assert is_asked(harness)


def test_member_with_older_topology_gets_no_description_request() -> None:
    from tests.coordinator.streams_harness import topology

    harness = Harness()
    harness.beat("a", 0, topology=topology(epoch=1), version=0)
    response, _ = harness.beat("b", 0, topology=topology(epoch=0))
    assert not response.topology_description_required


def test_pushed_description_is_returned_on_request_and_not_requested_again(harness: Harness) -> None:
    assert (reported(harness).topology_description_status, reported(harness).topology_description) == (NOT_STORED, None)
    response, records = update(harness)
    assert (response.error_code, response.error_message, records) == (0, None, STORED)
    group = reported(harness)
    assert group.topology_description_status == AVAILABLE
    nodes = group.topology_description.subtopologies[0].nodes
    assert [node.name for node in nodes] == ["source", "count", "sink"]
    assert [node.source_topics for node in nodes] == [["in"], [], []], "duplicate names are removed"
    assert [node.sink_topic for node in nodes] == [None, None, "out"], "only a sink has a topic"
    assert [node.stores for node in nodes] == [[], ["counts"], []], "only a processor has stores"
    assert [node.successors for node in nodes] == [["count"], ["sink"], []]
    (store,) = group.topology_description.global_stores
    assert (store.source.source_topics, store.processor.stores) == (["countries"], ["countries"])
    harness.now += 3_600 * SECOND
    assert not is_asked(harness)


def test_description_is_omitted_unless_requested(harness: Harness) -> None:
    update(harness)
    group = reported(harness, is_asked=False)
    assert (group.topology_description_status, group.topology_description) == (NOT_REQUESTED, None)


def test_stored_description_changes_only_stored_epoch(harness: Harness) -> None:
    before, metadata = reported(harness, is_asked=False), harness.group.metadata
    update(harness)
    assert reported(harness, is_asked=False) == before
    assert harness.group.metadata == replace(metadata, stored_description_topology_epoch=0)
    assert harness.beat("a", 2)[1] == []


def test_same_description_of_another_member_writes_nothing(harness: Harness) -> None:
    harness.beat("b", 0)
    update(harness)
    response, records = update(harness, member_id="b")
    assert (response.error_code, records) == (0, [])


def test_next_coordinator_loads_description_from_log(harness: Harness) -> None:
    harness.shard.handle(GroupRequest(1, Request("g", "a", 0, description())), harness.now)
    log = [encode_record(record) for record in harness.shard.take().records]
    assert log
    moved = Harness()
    moved.beat("a", 0)
    for key, value in log:
        moved.shard.replay(decode_record(key, value))
    assert reported(moved).topology_description == reported(harness).topology_description
    assert reported(moved).topology_description is not None and not is_asked(moved)


def test_description_is_deleted_with_group_and_requested_from_next_group(harness: Harness) -> None:
    update(harness)
    harness.beat("a", -1)
    harness.ask(DeleteGroupsRequest(groups_names=["g"]))
    assert reported(harness).topology_description_status == NOT_REQUESTED, "there is no group"
    response, _ = harness.beat("a", 0)
    assert response.topology_description_required
    assert reported(harness).topology_description_status == NOT_STORED


def test_too_large_description_fails_permanently() -> None:
    harness = Harness()
    harness.shard.state.config = replace(harness.shard.state.config, max_record_bytes=500)
    harness.beat("a", 0)
    many = replace(description(), subtopologies=description().subtopologies * 100)
    response, records = update(harness, topology_description=many)
    assert response.error_code == ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    assert response.error_message == "The description of the topology does not fit into a record of 500 bytes."
    assert (records, harness.group.metadata.failed_description_topology_epoch) == (["Metadata"], 0)
    harness.now += 3_600 * SECOND
    assert not is_asked(harness)
    assert reported(harness).topology_description_status == NOT_STORED


def _odd_node(described: UpdatedTopologyDescription) -> None:
    described.subtopologies[0].nodes[0].node_type = 9


def _odd_store(described: UpdatedTopologyDescription) -> None:
    described.global_stores[0].processor.node_type = 3


def _as_it_is(described: UpdatedTopologyDescription) -> None:
    pass


@pytest.mark.parametrize(
    ("said", "changed", "error", "words"),
    [
        ({"member_id": " "}, _as_it_is, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ({"group_id": ""}, _as_it_is, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ({"group_id": "h"}, _as_it_is, ErrorCode.GROUP_ID_NOT_FOUND, "Group h not found."),
        ({"member_id": "b"}, _as_it_is, ErrorCode.UNKNOWN_MEMBER_ID, "Member b is not a member of group g."),
        (
            {"topology_epoch": 42},
            _as_it_is,
            ErrorCode.INVALID_REQUEST,
            "Topology epoch 42 does not match the group's current topology epoch 0.",
        ),
        ({}, _odd_node, ErrorCode.INVALID_REQUEST, "Unknown topology node type: 9"),
        ({}, _odd_store, ErrorCode.INVALID_REQUEST, "Global store must be composed of a source and a processor node."),
    ],
)
def test_invalid_description_has_kafkas_error_message(
    harness: Harness,
    said: dict[str, Any],
    changed: Callable[[UpdatedTopologyDescription], None],
    error: ErrorCode,
    words: str,
) -> None:
    made = description()
    changed(made)
    response, records = update(harness, topology_description=made, **said)
    assert (response.error_code, response.error_message, records) == (error, words, [])
    assert reported(harness).topology_description_status == NOT_STORED


def test_description_of_group_of_another_kind_fails() -> None:
    harness = Harness()
    harness.commit("", -1, "in", 0)
    response, _ = update(harness)
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert response.error_message == "Group g is not a streams group."


def test_missing_shard_gets_not_coordinator() -> None:
    from odradek.coordinator.groups.shard import group_error_response

    response: Any = group_error_response(KINDS, Request(), 0, ErrorCode.NOT_COORDINATOR)
    assert response.error_code == ErrorCode.NOT_COORDINATOR
