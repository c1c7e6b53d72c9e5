"""Metrics that show an operator the faults of a cluster of three processes, node by node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from compat_tests.broker_process import free_port
from tests.server.harness.cluster_process import COMBINED, DEADLINE_S, Cluster, scraped

pytestmark = pytest.mark.usefixtures("processes")

REPLICAS = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"


class Watched:
    """A cluster with a metrics port on each node."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._ports = {node_id: free_port() for node_id in cluster.nodes}
        for node_id, port in self._ports.items():
            cluster.nodes[node_id].properties["odradek.metrics.port"] = str(port)

    def reported(self, node_id: int, name: str) -> float:
        return scraped(self._ports[node_id])[name]

    def until(self, node_id: int, name: str, least: float, most: float | None = None) -> None:
        """Waits until a metric is between `least` and `most`; equal to `least` if `most` is not given."""
        limit = least if most is None else most
        self.cluster.until(lambda: least <= self.reported(node_id, name) <= limit, f"{name} of {node_id} is {least}")

    def controller(self) -> int:
        found: int = self.cluster.until(lambda: max(0, self.cluster.controller()), "there is a controller")
        return found


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    cluster = Cluster(
        tmp_path_factory.mktemp("watched"),
        [COMBINED] * 3,
        broker_session_timeout_ms="60000",
        replica_lag_time_max_ms="4000",  # longer than a slow machine holds a follower up: its changes are counted
        min_insync_replicas="2",
    )
    watched = Watched(cluster)
    with cluster:
        yield watched


def test_a_follower_that_is_behind_is_counted_out_and_in(watched: Watched) -> None:
    controller = watched.controller()
    leader, follower = (node_id for node_id in watched.cluster.nodes if node_id != controller)
    watched.cluster.create_topic("two", [[leader, follower]])
    watched.until(leader, f"{REPLICAS}underreplicatedpartitions", 0)
    shrinks, expands = (watched.reported(leader, f"{REPLICAS}isr{change}_total") for change in ("shrinks", "expands"))
    watched.cluster.nodes[follower].pause()
    # A follower that has every record stays in sync, however long it sends no fetch.
    producer = Producer({"bootstrap.servers": watched.cluster.nodes[leader].bootstrap, "acks": 1, "log_level": 0})
    producer.produce("two", b"more")
    assert producer.flush(DEADLINE_S) == 0
    watched.until(leader, f"{REPLICAS}underminisrpartitioncount", 1)
    assert watched.reported(leader, f"{REPLICAS}underreplicatedpartitions") == 1
    watched.until(leader, f"{REPLICAS}isrshrinks_total", shrinks + 1)
    watched.cluster.nodes[follower].go_on()
    watched.until(leader, f"{REPLICAS}underreplicatedpartitions", 0)
    assert watched.reported(leader, f"{REPLICAS}underminisrpartitioncount") == 0
    watched.until(leader, f"{REPLICAS}isrexpands_total", expands + 1)


def test_partitions_without_a_leader_and_a_voter_that_is_behind_are_seen_at_the_controller(watched: Watched) -> None:
    controller = watched.controller()
    dead = next(node_id for node_id in watched.cluster.nodes if node_id != controller)
    watched.cluster.create_topic("alone", [[dead]])
    elections, gone = (
        watched.reported(controller, f"odradek_{what}_total") for what in ("leader_elections", "brokers_gone")
    )
    watched.cluster.nodes[dead].kill()
    watched.until(controller, f"{CONTROLLER}offlinepartitionscount", 1)
    assert watched.reported(controller, f"{CONTROLLER}fencedbrokercount") == 1
    assert watched.reported(controller, "odradek_brokers_gone_total") == gone + 1
    watched.cluster.create_topic("meanwhile", replication_factor=1)
    watched.until(controller, f'odradek_quorum_replica_lag{{replica="{dead}"}}', 1, most=1e6)
    watched.cluster.nodes[dead].start()
    watched.until(controller, f"{CONTROLLER}offlinepartitionscount", 0)
    watched.until(controller, f'odradek_quorum_replica_lag{{replica="{dead}"}}', 0, most=2)
    assert watched.reported(controller, "odradek_leader_elections_total") > elections


def test_leaderless_time_is_reported_after_controller_dies(watched: Watched) -> None:
    controller = watched.controller()
    left = [node_id for node_id in watched.cluster.nodes if node_id != controller]
    count = "odradek_quorum_leaderless_seconds_count"
    before = {node_id: watched.reported(node_id, count) for node_id in left}
    watched.cluster.nodes[controller].kill()
    watched.cluster.until(lambda: watched.cluster.controller() in left, "another is active")
    for node_id in left:
        watched.until(node_id, count, before[node_id] + 1, most=before[node_id] + 10)
        assert watched.reported(node_id, "odradek_quorum_leaderless_seconds_sum") > 0

    def actives() -> list[float]:
        return sorted(watched.reported(node_id, f"{CONTROLLER}activecontrollercount") for node_id in left)

    watched.cluster.until(lambda: actives() == [0, 1], "one of them is active")
    watched.cluster.nodes[controller].start()
