"""Apache Kafka's tools for a cluster, against three nodes of Odradek, one of which is killed meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.cli.commands import odradek_command
from compat_tests.java.tool import ToolHost
from compat_tests.odradek_process import OdradekProcess
from tests.server.harness.cluster_process import BROKER, CLUSTER_ID, COMBINED, Cluster

TOPIC = "watched"
Run = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("tools"), [COMBINED] * 3) as cluster:
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        yield cluster


@pytest.fixture(scope="module")
def host(java_tools: None) -> Iterator[ToolHost]:
    with ToolHost() as host:
        yield host


@pytest.fixture(scope="module")
def run(host: ToolHost, cluster: Cluster) -> Run:
    """Returns a function that runs a tool, which must succeed, and returns its output."""

    def ran(tool: str, *arguments: str) -> str:
        bootstrap = ["--bootstrap-server", cluster.bootstrap]
        first = 1 if tool == "ClusterTool" else 0
        words = [*arguments[:first], *bootstrap, *arguments[first:]]
        done = host.run(f"org.apache.kafka.tools.{tool}", *words, timeout=120).checked()
        return done.out

    return ran


def in_sync(cluster: Cluster) -> bool:
    found = cluster.partitions(TOPIC).values()
    return bool(found) and all(len(p.isr_nodes) == len(p.replica_nodes) for p in found)


def test_the_cluster_and_its_brokers_are_shown(run: Run) -> None:
    assert CLUSTER_ID in run("ClusterTool", "cluster-id")
    assert run("ClusterTool", "list-endpoints").count("unfenced") == 3
    assert "metadata.version" in run("FeatureCommand", "describe")


def test_a_broker_that_is_gone_for_good_is_unregistered(run: Run, cluster: Cluster) -> None:
    cluster.add(4, BROKER).start()
    assert run("ClusterTool", "list-endpoints").count("unfenced") == 4
    assert cluster.nodes.pop(4).stop() == 0
    everybody = ("ClusterTool", "list-endpoints", "--include-fenced-brokers")
    cluster.until(lambda: re.search(r"^4 .* fenced ", run(*everybody), re.MULTILINE), "it is fenced")
    assert "Broker 4 is no longer registered." in run("ClusterTool", "unregister", "--id", "4")
    cluster.until(lambda: len(re.findall("^[0-9] ", run(*everybody), re.MULTILINE)) == 3, "it is not known any more")


def test_features_are_raised_lowered_and_disabled(run: Run, cluster: Cluster) -> None:
    def level(feature: str) -> str:
        described = run("FeatureCommand", "describe")
        return re.search(rf"Feature: {feature}\s.*FinalizedVersionLevel: (.*?)\s+Epoch", described)[1]

    assert level("metadata.version") == "4.3-IV0"
    next_level = ("--feature", "metadata.version=31")
    assert "metadata.version can be upgraded to 31." in run("FeatureCommand", "upgrade", "--dry-run", *next_level)
    assert level("metadata.version") == "4.3-IV0"
    assert "metadata.version was upgraded to 31." in run("FeatureCommand", "upgrade", *next_level)
    cluster.until(lambda: level("metadata.version") == "4.4-IV0", "all know it")
    lowered = run("FeatureCommand", "downgrade", "--feature", "metadata.version=30")
    assert "metadata.version was downgraded to 30." in lowered
    cluster.until(lambda: level("metadata.version") == "4.3-IV0", "all know it")
    eligible = "eligible.leader.replicas.version"
    assert f"{eligible} was disabled." in run("FeatureCommand", "disable", "--feature", eligible)
    cluster.until(lambda: level(eligible) == "0", "all know it")
    assert f"{eligible} was upgraded to 1." in run("FeatureCommand", "upgrade", "--feature", f"{eligible}=1")
    cluster.until(lambda: level(eligible) == "1", "all know it")


def test_a_level_that_would_lose_metadata_is_refused(host: ToolHost, cluster: Cluster) -> None:
    words = ("--bootstrap-server", cluster.bootstrap, "downgrade", "--feature", "metadata.version=21")
    rejected = host.run("org.apache.kafka.tools.FeatureCommand", *words, timeout=120)
    assert rejected.status == 1
    assert "Could not downgrade metadata.version to 21." in rejected.out
    assert "Refusing to perform the requested downgrade because it might delete metadata information." in rejected.out


def test_a_release_raises_all_features_and_static_voters_move_into_the_log(
    host: ToolHost, run: Run, cluster: Cluster
) -> None:
    """kraft.version can rise once every voter has sent its directory id to the controller."""
    assert directories_of_voters(run) == []
    words = ("--bootstrap-server", cluster.bootstrap, "upgrade", "--release-version", "4.3-IV0")
    upgraded = cluster.until(
        lambda: (done := host.run("org.apache.kafka.tools.FeatureCommand", *words, timeout=120)).status == 0 and done,
        "all voters have told who they are",
    )
    assert "kraft.version was upgraded to 1." in upgraded.out
    assert len(set(directories_of_voters(run))) == 3


def test_one_command_raises_a_cluster_of_an_old_release(host: ToolHost, tmp_path: Path) -> None:
    """Levels that depend on a metadata.version are raised in the request that also raises that."""
    old = ("metadata.version=21", "group.version=0", "transaction.version=0", "share.version=0", "streams.version=0")
    levels = [word for level in old for word in ("--feature", level)]
    node = OdradekProcess(tmp_path)
    assert odradek_command("format", "--data-dir", str(node.data_dir), *levels).status == 0
    with node:
        words = ("--bootstrap-server", node.bootstrap, "upgrade", "--release-version", "4.3")
        upgraded = host.run("org.apache.kafka.tools.FeatureCommand", *words, timeout=120).checked()
    assert "metadata.version was upgraded to 30." in upgraded.out
    assert "eligible.leader.replicas.version was upgraded to 1." in upgraded.out


def directories_of_voters(run: Run) -> list[str]:
    status = run("MetadataQuorumCommand", "describe", "--status")
    (voters,) = (line for line in status.splitlines() if line.startswith("CurrentVoters:"))
    return re.findall('"directoryId": "(.*?)"', voters)


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
    cluster.until(
        lambda: {index: p.leader_id for index, p in cluster.partitions(TOPIC).items()} == {0: 1, 1: 2, 2: 3},
        "they lead",
    )


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
