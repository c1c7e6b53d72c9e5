"""An upgrade of kraft.version moves static voters into the log (KIP-853)."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.protocol.uuids import uuid_to_text

from tests.server.harness.cluster_process import COMBINED, Cluster, ClusterNode

pytestmark = pytest.mark.usefixtures("processes")

_UPGRADE = 1


def kraft_version(node: ClusterNode) -> int:
    asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    levels = {feature.name: feature.max_version_level for feature in node.ask(asked, 3).finalized_features}
    return int(levels.get("kraft.version", 0))


def is_raised(cluster: Cluster) -> bool:
    update = FeatureUpdateKey("kraft.version", 1, upgrade_type=_UPGRADE)
    response = cluster.ask_any(UpdateFeaturesRequest(timeout_ms=30_000, feature_updates=[update]), 2)
    if response is None or response.error_code:
        assert response is None or response.error_code in (
            ErrorCode.INVALID_UPDATE_VERSION,
            ErrorCode.NOT_CONTROLLER,
        ), response
        return False
    return True


def voters(cluster: Cluster) -> dict[int, str]:
    """Returns the directory ids of the voters, by node id."""
    asked = DescribeQuorumRequest(
        [DescribeQuorumTopicRequest("__cluster_metadata", [DescribeQuorumPartitionRequest(0)])]
    )
    (partition,) = cluster.ask_any(asked, 2).topics[0].partitions
    return {voter.replica_id: uuid_to_text(voter.replica_directory_id) for voter in partition.current_voters}


def directories(cluster: Cluster) -> dict[int, str]:
    files = {node_id: node.data_dir / "meta.properties" for node_id, node in cluster.nodes.items()}
    return {id: file.read_text().partition("directory.id=")[2].split()[0] for id, file in files.items()}


@pytest.mark.parametrize("count", [1, 3])
def test_static_voters_move_into_the_log_and_stay_there(tmp_path: Path, count: int) -> None:
    with Cluster(tmp_path, [COMBINED] * count) as cluster:
        nodes = cluster.nodes.values()
        assert {kraft_version(node) for node in nodes} == {0}
        cluster.until(lambda: is_raised(cluster), "all voters have told who they are, and it is raised")
        cluster.until(lambda: {kraft_version(node) for node in nodes} == {1}, "all know it")
        assert voters(cluster) == directories(cluster)
        cluster.create_topic("made-after-it", num_partitions=1, replication_factor=count)
        for node in nodes:
            node.kill()
        cluster.start_all()
        cluster.until(lambda: voters(cluster) == directories(cluster), "they still vote")
        assert {kraft_version(node) for node in nodes} == {1}
        cluster.create_topic("made-after-a-crash", num_partitions=1, replication_factor=count)
