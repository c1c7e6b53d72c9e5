"""Three real processes as one cluster: the leaders that clients see after a node is killed, paused or stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.broker_process import free_port
from tests.server.harness.cluster_process import BROKER, COMBINED, Cluster, scraped

pytestmark = pytest.mark.usefixtures("processes")

#: A failover that does not wait for the end of a session must be quicker, on a loaded machine too.
SESSION_S = 30.0
FENCED = "kafka_controller_kafkacontroller_fencedbrokercount"
#: Counts brokers that were fenced because their machine refused connections.
GONE = "odradek_brokers_gone_total"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    session_ms = str(int(SESSION_S * 1000))
    directory = tmp_path_factory.mktemp("three")
    cluster = Cluster(directory, [COMBINED] * 3, broker_session_timeout_ms=session_ms)
    for node in cluster.nodes.values():
        node.properties["odradek.metrics.port"] = str(free_port())
    with cluster:
        cluster.create_topic("a", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        yield cluster


def whole(cluster: Cluster) -> None:
    """Starts all stopped nodes, and waits until every replica is in sync."""
    for node in cluster.nodes.values():
        if not node.is_running:
            node.start()

    def is_whole() -> bool:
        found = cluster.partitions("a").values()
        return len(found) == 3 and all(len(partition.isr_nodes) == 3 for partition in found)

    cluster.until(is_whole, "all are in sync")


def leaders(cluster: Cluster, seen_by: int) -> set[int]:
    return {partition.leader_id for partition in cluster.partitions("a", cluster.nodes[seen_by]).values()}


def active(cluster: Cluster) -> int:
    found: int = cluster.until(lambda: max(0, cluster.controller()), "there is a controller")
    return found


def test_every_node_returns_the_same_controller_and_leaders(three: Cluster) -> None:
    whole(three)
    nodes = three.nodes.values()
    three.until(lambda: len({three.controller(node) for node in nodes} - {-1}) == 1, "one controller")
    three.until(lambda: len({str(three.partitions("a", node)) for node in nodes}) == 1, "the same partitions")


def test_the_leaders_of_a_killed_broker_move_long_before_its_session_ends(three: Cluster) -> None:
    whole(three)
    controller = active(three)
    killed = next(node_id for node_id in three.nodes if node_id != controller)
    killed_at = time.monotonic()
    three.nodes[killed].kill()
    three.until(lambda: leaders(three, controller).isdisjoint({killed, -1}), "leaders move")
    assert time.monotonic() - killed_at < SESSION_S / 2


def test_the_death_of_the_active_controller_moves_it_and_its_leaders(three: Cluster) -> None:
    whole(three)
    controller = active(three)
    left = next(node_id for node_id in three.nodes if node_id != controller)
    killed_at = time.monotonic()
    three.nodes[controller].kill()
    three.until(lambda: three.controller(three.nodes[left]) not in (controller, -1), "another is active")
    three.until(lambda: leaders(three, left).isdisjoint({controller, -1}), "leaders move")
    assert time.monotonic() - killed_at < SESSION_S
    three.create_topic("made-by-the-next")
    whole(three)
    assert set(three.partitions("made-by-the-next", three.nodes[controller])) == {0}, "who was killed knows it too"


def led_by_another(cluster: Cluster, topic: str) -> tuple[int, int]:
    """Creates a topic. Returns the active controller, and another node, which leads the topic's only partition."""
    whole(cluster)
    controller = active(cluster)
    other = next(node_id for node_id in cluster.nodes if node_id != controller)
    cluster.create_topic(topic, [[other, *(node_id for node_id in cluster.nodes if node_id != other)]])
    cluster.until(lambda: leader_of(cluster, topic, controller) == other, "it leads")
    return controller, other


def leader_of(cluster: Cluster, topic: str, seen_by: int) -> int:
    found: int = cluster.partitions(topic, cluster.nodes[seen_by])[0].leader_id
    return found


def dead(cluster: Cluster, seen_by: int) -> dict[str, float]:
    """Returns the active controller's counts of brokers that are fenced, and of brokers that were ever found gone."""
    found = scraped(int(cluster.nodes[seen_by].properties["odradek.metrics.port"]))
    return {name: found[name] for name in (FENCED, GONE)}


def test_a_paused_broker_is_not_taken_for_a_dead_one(three: Cluster) -> None:
    controller, paused = led_by_another(three, "led-by-the-paused")
    three.until(lambda: dead(three, controller)[FENCED] == 0, "the controller knows that all live")
    before = dead(three, controller)
    three.nodes[paused].pause()
    try:
        looked_until, looks = time.monotonic() + 2, 0
        while time.monotonic() < looked_until or not looks:
            assert leader_of(three, "led-by-the-paused", controller) == paused
            assert dead(three, controller) == before
            looks += 1
    finally:
        three.nodes[paused].go_on()


def test_a_node_that_stops_in_order_hands_over_what_it_leads(three: Cluster) -> None:
    controller, stopped = led_by_another(three, "led-by-the-stopped")
    taken_for_dead = dead(three, controller)[GONE]
    assert three.nodes[stopped].stop() == 0
    assert leader_of(three, "led-by-the-stopped", controller) not in (stopped, -1), "by the time it has ended"
    assert leaders(three, controller).isdisjoint({stopped, -1})
    after = dead(three, controller)
    assert (after[FENCED], after[GONE]) == (1, taken_for_dead), "it was fenced, and not as one that died"


def test_a_broker_that_is_no_controller_joins_a_cluster(three: Cluster) -> None:
    whole(three)
    fourth = three.add(4, BROKER)
    fourth.start()
    three.create_topic("on-four", [[4, 1]])
    assert three.partitions("on-four", fourth)[0].leader_id == 4
    three.until(lambda: set(three.partitions("on-four")[0].isr_nodes) == {4, 1}, "its follower is in sync")
    assert fourth.stop() == 0
    three.until(lambda: three.partitions("on-four")[0].leader_id == 1, "what it led has moved")
    del three.nodes[4]


def test_paused_broker_is_fenced_after_session_and_dead_broker_at_once(tmp_path: Path) -> None:
    port = free_port()
    cluster = Cluster(
        tmp_path, [COMBINED, BROKER], broker_session_timeout_ms="2000", broker_heartbeat_interval_ms="200"
    )
    cluster.nodes[1].properties["odradek.metrics.port"] = str(port)
    with cluster:
        before = scraped(port)
        cluster.create_topic("a", [[2, 1]])
        cluster.nodes[2].pause()
        cluster.until(lambda: scraped(port)[FENCED] == 1, "the silent one is fenced")
        cluster.nodes[2].go_on()
        cluster.until(lambda: scraped(port)[FENCED] == 0, "it is heard again")
        cluster.until(lambda: len(cluster.partitions("a", cluster.nodes[1])[0].isr_nodes) == 2, "it has caught up")
        cluster.nodes[2].kill()
        lacks, found = "kafka_server_replicamanager_underreplicatedpartitions", {}

        def is_found_dead() -> bool:
            """Returns True once the controller has fenced the broker, and its node has an under-replicated partition."""
            found.update(scraped(port))
            return found[FENCED] == found[lacks] == 1

        cluster.until(is_found_dead, "the dead one is fenced")
    timed_out = found["kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount"]
    assert timed_out >= 1 and timed_out + found[GONE] >= 2
    assert found["kafka_controller_kafkacontroller_offlinepartitionscount"] == 0
    assert found["odradek_leader_elections_total"] > before["odradek_leader_elections_total"]


def test_all_come_back_after_all_were_killed_at_once(three: Cluster) -> None:
    """The next active controller finds its previous incarnation registered, and must not use that registration."""
    for _ in range(3):
        whole(three)
        for node in three.nodes.values():
            node.kill()
        three.start_all()
    whole(three)
