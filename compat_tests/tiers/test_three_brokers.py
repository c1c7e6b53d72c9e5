"""Three brokers with tiered storage in one folder: leaders change, and new followers begin behind the store's part."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from compat_tests.cluster.mixed import MixedCluster
from compat_tests.recipes import eventually
from tests.server.harness.cluster_process import COMBINED

from . import tiered

COUNT = 6000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def cluster(tmp_path: Path, folder: Path) -> Iterator[MixedCluster]:
    made = MixedCluster(tmp_path, [COMBINED] * 3)
    for node in made.nodes.values():
        node.properties |= tiered.properties(folder, replication=3)
    with made:
        yield made


def bootstrap(cluster: MixedCluster) -> str:
    return ",".join(node.bootstrap for node in cluster.nodes.values())


def partition_state(cluster: MixedCluster) -> tuple[int, list[int], list[int]]:
    """Returns leader, replicas and ISR, as a running node has them."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=tiered.TOPIC)])
    for node in cluster.nodes.values():
        if node.is_running:
            try:
                (found,) = node.ask(request, 9).topics[0].partitions
            except (OSError, EOFError, ValueError):
                continue
            return found.leader_id, sorted(found.replica_nodes), sorted(found.isr_nodes)
    return -1, [], []


def await_local_start(cluster: MixedCluster, node_id: int, at_least: int) -> int:
    folder = cluster.nodes[node_id].log_dirs[0]
    return eventually(
        lambda: (start := min(tiered.local_bases(folder), default=0)) >= at_least and start,
        what=f"the local log of node {node_id} starts at {at_least} or later",
        deadline_s=60,
    )


def await_isr(cluster: MixedCluster, isr: list[int]) -> None:
    eventually(lambda: partition_state(cluster)[2] == isr, what=f"the ISR is {isr}", deadline_s=60)


def await_other_leader(cluster: MixedCluster, former: int) -> int:
    def found() -> int:
        leader = partition_state(cluster)[0]
        return 0 if leader in (former, -1) else leader

    return eventually(found, what=f"another broker than {former} leads", deadline_s=60)


def reassign(cluster: MixedCluster, replicas: list[int]) -> None:
    topic = ReassignableTopic(tiered.TOPIC, [ReassignablePartition(0, replicas)])
    node = next(node for node in cluster.nodes.values() if node.is_running)
    done = node.ask(AlterPartitionReassignmentsRequest(topics=[topic]), 0)
    assert not done.error_code and not done.responses[0].partitions[0].error_code, done
    eventually(
        lambda: partition_state(cluster)[1:] == (sorted(replicas), sorted(replicas)),
        what=f"the replicas are {replicas}",
        deadline_s=90,
    )


def test_records_survive_changes_of_leaders(cluster: MixedCluster, folder: Path) -> None:
    tiered.make_topic(bootstrap(cluster), replication=3)
    values = tiered.values_of(COUNT)
    tiered.produce(bootstrap(cluster), values)
    for turn in (1, 2):
        leader, _, _ = partition_state(cluster)
        for node_id in cluster.nodes:
            await_local_start(cluster, node_id, COUNT * turn - COUNT // 2)
        cluster.nodes[leader].kill()
        await_other_leader(cluster, leader)
        more = tiered.values_of(COUNT, COUNT * turn)
        tiered.produce(bootstrap(cluster), more)
        values += more
        assert tiered.consume(bootstrap(cluster), len(values)) == tiered.numbered(values)
        cluster.nodes[leader].start()
        await_isr(cluster, [1, 2, 3])


def test_empty_follower_begins_behind_the_part_of_the_store_and_leads(cluster: MixedCluster, folder: Path) -> None:
    tiered.make_topic(bootstrap(cluster), replication=3)
    values = tiered.values_of(COUNT)
    tiered.produce(bootstrap(cluster), values)
    leader, _, _ = partition_state(cluster)
    start = await_local_start(cluster, leader, COUNT // 2)
    follower = next(node_id for node_id in cluster.nodes if node_id != leader)
    node = cluster.nodes[follower]
    node.kill()
    shutil.rmtree(node.log_dirs[0] / f"{tiered.TOPIC}-0")
    node.start()
    await_isr(cluster, [1, 2, 3])
    assert min(tiered.local_bases(node.log_dirs[0])) >= start
    reassign(cluster, [follower])
    assert tiered.consume(bootstrap(cluster), COUNT) == tiered.numbered(values)
    more = tiered.values_of(COUNT, COUNT)
    tiered.produce(bootstrap(cluster), more)
    await_local_start(cluster, follower, COUNT + COUNT // 2)
    assert tiered.consume(bootstrap(cluster), 2 * COUNT) == tiered.numbered(values + more)


def test_reassigned_partition_is_read_from_the_store_by_its_new_leader(cluster: MixedCluster, folder: Path) -> None:
    tiered.make_topic(bootstrap(cluster), replication=1)
    values = tiered.values_of(COUNT)
    tiered.produce(bootstrap(cluster), values)
    leader, _, _ = partition_state(cluster)
    await_local_start(cluster, leader, COUNT // 2)
    other = next(node_id for node_id in cluster.nodes if node_id != leader)
    reassign(cluster, [other])
    assert tiered.consume(bootstrap(cluster), COUNT) == tiered.numbered(values)
    assert len(tiered.remote_segments(folder)) > 3
