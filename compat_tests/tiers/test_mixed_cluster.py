"""A cluster of Odradek and Apache Kafka with one store: each reads what the other has copied, and follows the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from odradek.columns import scan

from compat_tests.recipes import eventually

from . import tiered
from .cluster import (
    TieredCluster,
    await_isr,
    await_local_start,
    await_other_leader,
    bootstrap,
    partition_state,
    reassign,
    tiered_cluster,
)

pytestmark = [pytest.mark.slow, pytest.mark.oracle]

COUNT = 6000


@pytest.fixture
def metadata_partitions() -> int:
    return 3


@pytest.fixture
def cluster(java_tools: None, tmp_path: Path, folder: Path, metadata_partitions: int) -> Iterator[TieredCluster]:
    """Node 1 runs Odradek, nodes 2 and 3 Apache Kafka."""
    count = {"rlmm.config.remote.log.metadata.topic.num.partitions": str(metadata_partitions)}
    with tiered_cluster(tmp_path, folder, count, apache=(2, 3)) as made:
        yield made


def test_each_reads_and_continues_the_tier_of_the_other(cluster: TieredCluster, folder: Path) -> None:
    tiered.make_topic(bootstrap(cluster), replication=1)
    values: list[bytes] = []
    for turn, node_id in enumerate((1, 2, 1)):
        if partition_state(cluster)[1] != [node_id]:
            reassign(cluster, [node_id])
        more = tiered.values_of(COUNT, COUNT * turn)
        tiered.produce(bootstrap(cluster), more)
        values += more
        await_local_start(cluster, node_id, COUNT * turn + COUNT // 2)
        assert not tiered.differences(tiered.consume(bootstrap(cluster), len(values)), values)
        assert not tiered.differences(scanned(cluster, folder), values)


def scanned(cluster: TieredCluster, folder: Path) -> list[tuple[int, bytes]]:
    """The records as a scan reads them from the folder, into which both programs have copied segments."""
    store = {"remote.log.storage.manager.class.name": tiered.STORE_CLASS, "rsm.config.dir": str(folder)}
    found = scan(tiered.TOPIC, client={"bootstrap.servers": bootstrap(cluster), **store}, columns=["offset", "value"])
    assert any(one.remote is not None for one in found.splits)
    return [(one["offset"], one["value"]) for one in found.to_table().to_pylist()]


def test_leaders_of_both_kinds_follow_one_another(cluster: TieredCluster, folder: Path) -> None:
    tiered.make_topic(bootstrap(cluster), replication=3)
    values: list[bytes] = []
    for turn in range(3):
        more = tiered.values_of(COUNT, COUNT * turn)
        tiered.produce(bootstrap(cluster), more)
        values += more
        leader, _, _ = partition_state(cluster)
        for node_id in cluster.nodes:
            await_local_start(cluster, node_id, COUNT * turn + COUNT // 2)
        assert not tiered.differences(tiered.consume(bootstrap(cluster), len(values)), values)
        if turn < 2:
            cluster.nodes[leader].kill()
            await_other_leader(cluster, leader)
            assert not tiered.differences(tiered.consume(bootstrap(cluster), len(values)), values)
            cluster.nodes[leader].start()
            await_isr(cluster, [1, 2, 3])


@pytest.mark.parametrize("metadata_partitions", [1])
def test_apache_kafka_goes_on_behind_the_events_of_a_deleted_partition(cluster: TieredCluster, folder: Path) -> None:
    """Apache Kafka 4.3 writes no DELETE_PARTITION_* event itself. The topics here share one metadata partition."""
    address = bootstrap(cluster)
    tiered.make_topic(address, replication=1)
    tiered.make_topic(address, replication=1, name="other")
    reassign(cluster, [1])
    reassign(cluster, [2], topic="other")
    tiered.produce(address, tiered.values_of(COUNT))
    values = tiered.values_of(COUNT)
    tiered.produce(address, values, topic="other")
    tiered.await_remote(folder, 3)
    await_local_start(cluster, 2, COUNT // 2, topic="other")
    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_topics([tiered.TOPIC])[tiered.TOPIC].result(30)
    eventually(lambda: not tiered.remote_segments(folder), what="the segments are deleted", deadline_s=60)
    assert not tiered.differences(tiered.consume(address, COUNT, topic="other"), values)
    more = tiered.values_of(COUNT, COUNT)
    tiered.produce(address, more, topic="other")
    await_local_start(cluster, 2, COUNT + COUNT // 2, topic="other")
    assert not tiered.differences(tiered.consume(address, 2 * COUNT, topic="other"), values + more)
    cluster.nodes[2].stop()
    cluster.nodes[2].start()

    def is_read_again() -> bool:
        """Apache Kafka answers remote reads with UNKNOWN_SERVER_ERROR until it has begun to read the metadata."""
        try:
            found = tiered.consume(address, 2 * COUNT, topic="other")
        except AssertionError:
            return False
        return found == tiered.numbered(values + more)

    eventually(is_read_again, what="Apache Kafka serves the topic after a start", deadline_s=120)
