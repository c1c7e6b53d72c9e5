"""Followers of a tiered topic: consumers of their rack read the store through them, and new ones begin behind its part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.broker_process import free_port
from compat_tests.cluster.mixed import MixedCluster
from compat_tests.recipes import eventually
from tests.server.harness.cluster_process import scraped

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
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
METRICS_PORT = "odradek.metrics.port"
FETCHED = f'kafka_server_brokertopicmetrics_remotefetchbytes_total{{topic="{tiered.TOPIC}"}}'


@pytest.fixture
def cluster(tmp_path: Path, folder: Path, request: pytest.FixtureRequest) -> Iterator[MixedCluster]:
    """Three brokers, each in a rack of its own."""
    made = tiered_cluster(tmp_path, folder, {"replica.selector.class": SELECTOR} | getattr(request, "param", {}))
    for node_id, node in made.nodes.items():
        node.properties |= {"broker.rack": f"rack-{node_id}", METRICS_PORT: str(free_port())}
    with made:
        yield made


def bytes_from_store(cluster: MixedCluster, node_id: int) -> float:
    return scraped(int(cluster.nodes[node_id].properties[METRICS_PORT])).get(FETCHED, 0)


def test_consumer_reads_the_store_through_the_follower_of_its_rack(cluster: MixedCluster) -> None:
    tiered.make_topic(bootstrap(cluster), replication=3)
    values = tiered.values_of(COUNT)
    tiered.produce(bootstrap(cluster), values)
    leader, _, _ = partition_state(cluster)
    for node_id in cluster.nodes:
        await_local_start(cluster, node_id, COUNT // 2)
    follower = next(node_id for node_id in cluster.nodes if node_id != leader)
    found = tiered.consume(bootstrap(cluster), COUNT, client_rack=f"rack-{follower}")
    assert found == tiered.numbered(values)
    # All but the first response, which names the replica, come from the follower.
    assert bytes_from_store(cluster, follower) > 1_000_000 and bytes_from_store(cluster, leader) == 0


LAST_TIERED = {"follower.fetch.last.tiered.offset.enable": "true"}


@pytest.mark.parametrize("cluster", [{}, LAST_TIERED], indirect=True, ids=["earliest-local", "last-tiered"])
def test_topic_expands_to_an_empty_broker_that_reads_the_store_and_leads(cluster: MixedCluster, folder: Path) -> None:
    tiered.make_topic(bootstrap(cluster), replication=1, local_retention_bytes=str(3 << 20))
    values = tiered.values_of(COUNT)
    tiered.produce(bootstrap(cluster), values)
    leader, _, _ = partition_state(cluster)
    start = await_local_start(cluster, leader, COUNT // 4)
    tiered.await_remote(folder, 5)
    other = next(node_id for node_id in cluster.nodes if node_id != leader)
    reassign(cluster, [leader, other])
    begun = min(tiered.local_bases(cluster.nodes[other].log_dirs[0]))
    last_tiered = LAST_TIERED.items() <= cluster.nodes[other].properties.items()
    assert begun > start if last_tiered else begun >= start
    await_isr(cluster, sorted([leader, other]))
    cluster.nodes[leader].kill()
    assert await_other_leader(cluster, leader) == other
    assert tiered.consume(bootstrap(cluster), COUNT) == tiered.numbered(values)
    assert bytes_from_store(cluster, other) > 1_000_000
    more = tiered.values_of(COUNT, COUNT)
    tiered.produce(bootstrap(cluster), more)
    eventually(
        lambda: min(tiered.local_bases(cluster.nodes[other].log_dirs[0])) > COUNT,
        what="the new leader copies and deletes",
        deadline_s=60,
    )
    assert tiered.consume(bootstrap(cluster), 2 * COUNT) == tiered.numbered(values + more)
