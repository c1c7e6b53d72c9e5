"""Descriptions of topologies (KIP-1331) on three brokers: they move with their group's coordinator, and outlive kill -9."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from odradek.protocol.messages.streams_group_topology_description_update import (
    UpdatedTopologyDescription,
    UpdatedTopologyDescriptionNode,
    UpdatedTopologyDescriptionSubtopology,
)
from odradek.protocol.schema import Message

from compat_tests.streams.application import GROUP, LATER, TOPIC, describe, join
from tests.server.harness.cluster_process import COMBINED, Cluster, ClusterNode

pytestmark = pytest.mark.usefixtures("processes")

DESCRIPTION = UpdatedTopologyDescription(
    subtopologies=[
        UpdatedTopologyDescriptionSubtopology(
            subtopology_id="0",
            nodes=[
                UpdatedTopologyDescriptionNode(name="read", node_type=1, source_topics=[TOPIC], successors=["write"]),
                UpdatedTopologyDescriptionNode(name="write", node_type=3, sink_topic="words"),
            ],
        )
    ]
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, [COMBINED] * 3, offsets_topic_num_partitions="3") as cluster:
        cluster.create_topic(TOPIC, [[1, 2, 3]])
        yield cluster


def coordinator(cluster: Cluster) -> ClusterNode:
    def found() -> ClusterNode | None:
        response = cluster.ask_any(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 6)
        one = response.coordinators[0] if response is not None else None
        if one is None or one.error_code:
            return None
        return next((node for node in cluster.running() if node.node_id == one.node_id), None)

    node: ClusterNode = cluster.until(found, "the group has a coordinator")
    return node


def ask(cluster: Cluster, request: Message, version: int) -> Any:
    """Returns the coordinator's response, once a coordinator has loaded its groups."""

    def answered() -> Any:
        response = coordinator(cluster).ask(request, version)
        reported = response.groups[0] if isinstance(request, StreamsGroupDescribeRequest) else response
        return None if reported.error_code in LATER else reported

    return cluster.until(answered, f"{type(request).__name__} is answered")


def nodes_reported(cluster: Cluster) -> list[str]:
    request = StreamsGroupDescribeRequest(group_ids=[GROUP], include_topology_description=True)
    reported = ask(cluster, request, 1)
    assert reported.error_code == 0, reported
    found = reported.topology_description
    return [] if found is None else [node.name for one in found.subtopologies for node in one.nodes]


def test_description_is_returned_by_next_coordinator_and_after_kill_of_all(cluster: Cluster) -> None:
    joined = ask(cluster, join(), 1)
    assert (joined.error_code, joined.topology_description_required) == (0, True), joined
    assert nodes_reported(cluster) == []
    assert ask(cluster, describe(DESCRIPTION), 0).error_code == 0
    assert nodes_reported(cluster) == ["read", "write"]
    before = coordinator(cluster)
    before.kill()
    assert nodes_reported(cluster) == ["read", "write"]
    assert coordinator(cluster) is not before
    for node in cluster.running():
        node.kill()
    cluster.start_all()
    assert nodes_reported(cluster) == ["read", "write"]
