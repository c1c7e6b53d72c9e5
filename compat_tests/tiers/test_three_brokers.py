"""Three brokers with tiered storage in one folder: leaders change, and new followers begin behind the store's part."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.mixed import MixedCluster
from compat_tests.recipes import eventually

from . import tiered
from .cluster import (
    await_isr,
    await_local_start,
    await_other_leader,
    bootstrap,
    partition_state,
    reassign,
    tiered_cluster,
)

COUNT = 6000


@pytest.fixture
def cluster(tmp_path: Path, folder: Path) -> Iterator[MixedCluster]:
    with tiered_cluster(tmp_path, folder) as made:
        yield made


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
    for checkpoint in node.log_dirs[0].glob("*-offset-checkpoint*"):
        checkpoint.unlink()
    node.start()
    await_isr(cluster, [1, 2, 3])
    assert min(tiered.local_bases(node.log_dirs[0])) >= start
    reassign(cluster, [follower])
    assert tiered.consume(bootstrap(cluster), COUNT) == tiered.numbered(values)
    more = tiered.values_of(COUNT, COUNT)
    tiered.produce(bootstrap(cluster), more)
    await_local_start(cluster, follower, COUNT + COUNT // 2)
    assert tiered.consume(bootstrap(cluster), 2 * COUNT) == tiered.numbered(values + more)


def test_leader_that_has_lost_its_folder_deletes_nothing_from_the_store(cluster: MixedCluster, folder: Path) -> None:
    tiered.make_topic(bootstrap(cluster), replication=3)
    tiered.produce(bootstrap(cluster), tiered.values_of(COUNT))
    leader, _, _ = partition_state(cluster)
    await_local_start(cluster, leader, COUNT // 2)
    tiered.await_remote(folder, 5)
    node = cluster.nodes[next(node_id for node_id in cluster.nodes if node_id != leader)]
    checkpoint = node.log_dirs[0] / "replication-offset-checkpoint"
    written = f"{tiered.TOPIC} 0 {COUNT}\n"
    eventually(
        lambda: checkpoint.exists() and written in checkpoint.read_text(),
        what="the high watermark is written",
        deadline_s=60,
    )
    before = tiered.remote_segments(folder)
    node.kill()
    shutil.rmtree(node.log_dirs[0] / f"{tiered.TOPIC}-0")
    node.start()
    await_isr(cluster, [1, 2, 3])
    reassign(cluster, [node.node_id])
    words = "whether remote segments are of this log is not known"
    eventually(lambda: words in node.log_file.read_text(), what="the loss is logged", deadline_s=60)
    assert tiered.remote_segments(folder) == before


def test_reassigned_partition_is_read_from_the_store_by_its_new_leader(cluster: MixedCluster, folder: Path) -> None:
    tiered.make_topic(bootstrap(cluster), replication=1)
    values = tiered.values_of(COUNT)
    tiered.produce(bootstrap(cluster), values)
    leader, _, _ = partition_state(cluster)
    await_local_start(cluster, leader, COUNT // 2)
    other = next(node_id for node_id in cluster.nodes if node_id != leader)
    reassign(cluster, [other])
    assert tiered.consume(bootstrap(cluster), COUNT) == tiered.numbered(values)
    eventually(lambda: len(tiered.remote_segments(folder)) > 3, what="the new leader has stored a segment")
