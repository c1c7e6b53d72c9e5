"""Apache Kafka's own tools for a cluster, against three of our nodes, one of which is killed between."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.java.tool import ToolHost
from tests.server.cluster_process import CLUSTER_ID, COMBINED, Cluster

TOPIC = "watched"
Run = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("tools"), [COMBINED] * 3) as cluster:
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        yield cluster


@pytest.fixture(scope="module")
def run(java_tools: None, cluster: Cluster) -> Iterator[Run]:
    """What a tool prints; it must end well."""
    with ToolHost() as host:

        def ran(tool: str, *arguments: str) -> str:
            bootstrap = ["--bootstrap-server", cluster.bootstrap]
            first = 1 if tool == "ClusterTool" else 0
            words = [*arguments[:first], *bootstrap, *arguments[first:]]
            done = host.run(f"org.apache.kafka.tools.{tool}", *words, timeout=120).checked()
            return done.out

        yield ran


def in_sync(cluster: Cluster) -> bool:
    return all(len(p.isr_nodes) == len(p.replica_nodes) for p in cluster.partitions(TOPIC).values())


def test_the_cluster_and_its_brokers_are_shown(run: Run) -> None:
    assert CLUSTER_ID in run("ClusterTool", "cluster-id")
    assert run("ClusterTool", "list-endpoints").count("unfenced") == 3
    assert "metadata.version" in run("FeatureCommand", "describe")


def test_the_quorum_is_shown(run: Run, cluster: Cluster) -> None:
    status = run("MetadataQuorumCommand", "describe", "--status")
    leader = cluster.until(lambda: max(0, cluster.controller()), "there is a controller")
    assert f"LeaderId:               {leader}\n" in status
    replication = run("MetadataQuorumCommand", "describe", "--replication")
    assert (replication.count("Leader"), replication.count("Follower")) == (1, 2)


def test_partitions_that_lack_a_replica_are_listed_and_preferred_leaders_elected(run: Run, cluster: Cluster) -> None:
    controller = cluster.until(lambda: max(0, cluster.controller()), "there is a controller")
    killed = next(node_id for node_id in cluster.nodes if node_id != controller)
    cluster.nodes[killed].kill()
    cluster.until(lambda: not in_sync(cluster), "the others have noticed")
    listed = run("TopicCommand", "--describe", "--under-replicated-partitions")
    assert [f"Partition: {index}" in listed for index in range(3)] == [True] * 3
    cluster.nodes[killed].start()
    cluster.until(lambda: in_sync(cluster), "it has caught up")
    assert "Partition:" not in run("TopicCommand", "--describe", "--under-replicated-partitions")
    elected = run("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    assert f"{TOPIC}-{killed - 1}" in elected
    leaders = {index: partition.leader_id for index, partition in cluster.partitions(TOPIC).items()}
    assert leaders == {0: 1, 1: 2, 2: 3}


def test_replicas_are_reassigned_and_the_reassignment_verified(run: Run, cluster: Cluster, tmp_path: Path) -> None:
    wanted = {0: [1, 2], 1: [3, 1]}
    file = tmp_path / "reassignment.json"
    partitions = [{"topic": TOPIC, "partition": index, "replicas": replicas} for index, replicas in wanted.items()]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    command = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(file))
    assert "Successfully started partition reassignments" in run(*command, "--execute", "--throttle", "10000000")
    cluster.until(
        lambda: {i: p.replica_nodes for i, p in cluster.partitions(TOPIC).items() if i in wanted} == wanted, "moved"
    )
    verified = run(*command, "--verify")
    assert verified.count("is completed") == 2 and "Clearing topic-level throttles" in verified
    assert "No partition reassignments found." in run("reassign.ReassignPartitionsCommand", "--list")
