"""The controller quorum as real processes: a controller that was down for long, and voters that join and leave."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest
from odradek.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from odradek.protocol.messages.voter_listeners import VoterListener
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import format_directories, standalone_voters
from odradek.server.controller.metadata_log import DIRECTORY_NAME

from compat_tests.broker_process import free_port
from tests.server.harness.cluster_process import BROKER, CLUSTER_ID, CONTROLLER, Cluster, ClusterNode
from tests.server.harness.quorum_processes import directory_of, has_caught_up, quorum

pytestmark = pytest.mark.usefixtures("processes")

#: Limits so small that a snapshot soon replaces the start of the log.
SMALL_LOG = {
    "metadata_log_max_record_bytes_between_snapshots": "2000",
    "metadata_max_retention_bytes": "1000",
    "internal_metadata_log_segment_bytes": "4000",
}


def snapshots(node: ClusterNode) -> list[int]:
    return sorted(int(path.name[:20]) for path in (node.data_dir / DIRECTORY_NAME).glob("*.checkpoint"))


def test_a_controller_that_was_away_for_long_comes_back_by_a_snapshot(tmp_path: Path) -> None:
    with Cluster(tmp_path, [CONTROLLER, CONTROLLER, CONTROLLER, BROKER], **SMALL_LOG) as cluster:
        broker = cluster.nodes[4]
        cluster.create_topic("before")
        leader = cluster.until(lambda: max(0, cluster.controller()), "there is a leader")
        epoch = quorum(broker).leader_epoch
        cluster.nodes[leader].kill()
        others = {node_id: cluster.nodes[node_id] for node_id in (1, 2, 3) if node_id != leader}
        left = cluster.until(lambda: others.get(cluster.controller()), "another leads")
        assert quorum(broker).leader_epoch > epoch
        end, made = quorum(broker).high_watermark, 0
        # At least one topic: periodic records may have caused a snapshot before the first topic.
        while not made or not snapshots(left) or snapshots(left)[0] <= end:
            cluster.create_topic(f"while-away-{made}", num_partitions=20, replication_factor=1)
            made += 1
        back = cluster.nodes[leader]
        back.start()
        cluster.until(lambda: has_caught_up(quorum(broker), leader), "who came back has everything")
        assert snapshots(back)[0] > end, "the log between was gone"
        assert set(cluster.partitions("before")) and set(cluster.partitions(f"while-away-{made - 1}"))


def node_of(directory: Path, node_id: int, role: str, voter_port: int, port: int) -> ClusterNode:
    name = "PLAINTEXT" if role == BROKER else "CONTROLLER"
    properties = {
        "process.roles": role,
        "node.id": str(node_id),
        "listeners": f"{name}://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{voter_port}",
        "log.dirs": str(directory / f"node-{node_id}" / "data"),
    }
    node = ClusterNode(directory / f"node-{node_id}", node_id, properties)
    node.host, node.port = "127.0.0.1", port
    config = BrokerConfig(properties)
    voters = standalone_voters(config) if port == voter_port else ()
    format_directories(config, CLUSTER_ID, initial_voters=voters)
    return node


def test_a_voter_joins_one_that_was_alone_and_takes_its_place(tmp_path: Path) -> None:
    """KIP-853: the set of voters is in the log, and changes while the cluster runs."""
    ports = [free_port() for _ in range(3)]
    first = node_of(tmp_path, 1, CONTROLLER, ports[0], ports[0])
    broker = node_of(tmp_path, 2, BROKER, ports[0], ports[1])
    joins = node_of(tmp_path, 3, CONTROLLER, ports[0], ports[2])
    cluster = Cluster(tmp_path / "none", [])
    cluster.nodes = {1: first, 2: broker, 3: joins}
    with cluster:
        cluster.create_topic("before")
        cluster.until(lambda: has_caught_up(quorum(broker), 3), "who wants to join has everything")
        assert {state.replica_id for state in quorum(broker).observers} == {2, 3}
        listener = VoterListener("CONTROLLER", "127.0.0.1", ports[2])
        add = AddRaftVoterRequest(CLUSTER_ID, 30_000, 3, directory_of(joins), [listener])
        assert broker.ask(add, 1).error_code == ErrorCode.NONE
        assert broker.ask(add, 1).error_code == ErrorCode.DUPLICATE_VOTER
        assert {state.replica_id for state in quorum(broker).current_voters} == {1, 3}
        remove = RemoveRaftVoterRequest(CLUSTER_ID, 1, directory_of(first))
        assert broker.ask(remove, 0).error_code == ErrorCode.NONE
        cluster.until(lambda: leads(broker, 3), "who joined leads")
        first.kill()
        cluster.create_topic("after")
        broker.kill()
        broker.properties["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{ports[2]}"
        broker.start()
        assert set(cluster.partitions("before")) == set(cluster.partitions("after")) == {0}


def leads(broker: ClusterNode, node_id: int) -> bool:
    with contextlib.suppress(OSError, EOFError):
        said = quorum(broker)
        return said is not None and said.leader_id == node_id and has_caught_up(said, node_id)
    return False
