"""`order-events`, 3 partitions, replication factor 3, 3 brokers; clients work all along, and the counts come out exact.

The tests are the acts of one play, in this order. docs/failover.md tells it for people.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from compat_tests.cluster.orders import (
    TOPIC,
    Billing,
    KafkaPythonSender,
    LibrdkafkaSender,
    Sender,
    anomalies,
    read_all,
)
from tests.server.cluster_process import BROKER, COMBINED, Cluster

pytestmark = pytest.mark.timeout(600)

_TOPIC_RESOURCE, _SET = 2, 0


class Play(NamedTuple):
    cluster: Cluster
    senders: list[Sender]
    billing: Billing

    def leaders(self) -> dict[int, int]:
        return {index: partition.leader_id for index, partition in self.cluster.partitions(TOPIC).items()}

    def controller(self) -> int:
        found: int = self.cluster.until(lambda: max(0, self.cluster.controller()), "there is a controller")
        return found

    def goes_on(self) -> None:
        """Every sender is told of orders that it sends from now on, and they are read."""
        before = [len(sender.acknowledged) for sender in self.senders]
        self.cluster.until(
            lambda: all(len(s.acknowledged) > b + 20 for s, b in zip(self.senders, before)), "orders are acknowledged"
        )
        order = self.senders[0].acknowledged[-1]
        self.cluster.until(lambda: self.billing.seen[order], "they are read")

    def is_whole(self, replicas: int = 3) -> None:
        """Who was killed is back and has caught up."""
        for node in self.cluster.nodes.values():
            if not node.is_running:
                node.begin()
        for node in self.cluster.nodes.values():
            node.await_serving()
        self.cluster.until(
            lambda: all(len(p.isr_nodes) == replicas for p in self.cluster.partitions(TOPIC).values()), "all in sync"
        )

    def reassign(self, replicas: dict[int, list[int]]) -> None:
        partitions = [ReassignablePartition(index, brokers) for index, brokers in replicas.items()]
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=30_000, topics=[ReassignableTopic(TOPIC, partitions)], allow_replication_factor_change=True
        )
        answer = self.cluster.ask_any(request, 1)
        assert answer.error_code == 0 and all(p.error_code == 0 for t in answer.responses for p in t.partitions), answer
        self.cluster.until(
            lambda: (
                {
                    index: set(partition.isr_nodes)
                    for index, partition in self.cluster.partitions(TOPIC).items()
                    if index in replicas and set(partition.isr_nodes) == set(partition.replica_nodes)
                }
                == {index: set(brokers) for index, brokers in replicas.items()}
            ),
            "the replicas are where they shall be, in sync",
        )


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    overrides = {"offsets_topic_num_partitions": "3", "min_insync_replicas": "2"}
    with Cluster(tmp_path_factory.mktemp("orders"), [COMBINED] * 3, **overrides) as cluster:
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        senders: list[Sender] = [
            LibrdkafkaSender("librdkafka", cluster.bootstrap),
            KafkaPythonSender("kafka-python", cluster.bootstrap),
        ]
        billing = Billing(cluster.bootstrap)
        for client in (*senders, billing):
            client.start()
        yield Play(cluster, senders, billing)
        for client in (*senders, billing):
            client.end()


def test_the_leader_of_one_partition_is_killed(play: Play) -> None:
    play.goes_on()
    controller = play.controller()
    killed = next(leader for leader in play.leaders().values() if leader != controller)
    play.cluster.nodes[killed].kill()
    play.cluster.until(lambda: {killed, -1}.isdisjoint(play.leaders().values()), "others lead")
    play.goes_on()
    play.is_whole()


def test_a_broker_that_leads_several_is_killed(play: Play) -> None:
    leaders = list(play.leaders().values())
    killed = max(set(leaders), key=leaders.count)
    assert leaders.count(killed) >= 2
    play.cluster.nodes[killed].kill()
    play.cluster.until(lambda: {killed, -1}.isdisjoint(play.leaders().values()), "others lead")
    play.goes_on()
    play.is_whole()


def test_the_active_controller_is_killed(play: Play) -> None:
    killed = play.controller()
    play.cluster.nodes[killed].kill()
    play.cluster.until(lambda: play.cluster.controller() not in (killed, -1), "another is active")
    play.goes_on()
    play.is_whole()


def test_a_broker_and_the_controller_are_killed_at_once_and_come_back(play: Play) -> None:
    controller = play.controller()
    other = next(node_id for node_id in play.cluster.nodes if node_id != controller)
    for killed in (controller, other):
        play.cluster.nodes[killed].kill()
    play.is_whole()
    play.goes_on()


def test_partitions_move_to_a_fourth_broker(play: Play) -> None:
    play.cluster.add(4, BROKER).start()
    play.reassign({0: [4, 2, 3], 1: [2, 4, 1]})
    play.goes_on()
    assert play.leaders()[0] in (4, 2, 3)


def test_partitions_are_added(play: Play) -> None:
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(TOPIC, 5, assignments=None)], timeout_ms=30_000)
    assert play.cluster.ask_any(request, 3).results[0].error_code == 0
    play.cluster.until(lambda: len(play.cluster.partitions(TOPIC)) == 5, "five partitions")
    play.goes_on()


def test_the_replication_factor_is_raised_and_lowered(play: Play) -> None:
    play.reassign({2: [3, 1, 2, 4]})
    play.goes_on()
    play.reassign({2: [3, 1]})
    play.goes_on()


def test_configurations_change_without_downtime(play: Play) -> None:
    changed = AlterableConfig("segment.bytes", _SET, "1048576")
    resource = AlterConfigsResource(_TOPIC_RESOURCE, TOPIC, [changed])
    answer = play.cluster.ask_any(IncrementalAlterConfigsRequest([resource]), 1)
    assert answer.responses[0].error_code == 0, answer
    play.goes_on()


def test_a_group_rewinds_and_works_off_its_backlog_while_a_broker_is_stopped(play: Play) -> None:
    behind = len(play.senders[0].acknowledged)
    play.billing.rewind()
    stopped = next(node_id for node_id in (1, 2, 3) if node_id != play.controller())
    assert play.cluster.nodes[stopped].stop() == 0
    play.cluster.until(lambda: len(play.billing.seen) > behind, "the backlog is read")
    play.cluster.nodes[stopped].start()
    play.goes_on()


def test_in_the_end_every_order_is_there_once_and_in_order(play: Play) -> None:
    for sender in play.senders:
        sender.end()
    acknowledged = {order for sender in play.senders for order in sender.acknowledged}
    found = read_all(play.cluster.bootstrap, len(acknowledged))
    assert anomalies(found, play.senders) == []
    assert sum(map(len, found.values())) == len(acknowledged) == sum(sender.sent for sender in play.senders)
    play.cluster.until(lambda: acknowledged <= play.billing.seen.keys(), "the group has read all")
    assert play.billing.failed == []


def test_the_checks_bite() -> None:
    """What the last act looks for is found where it is planted."""
    sender = Sender("c", "")
    sender.acknowledged = ["c-0", "c-1", "c-2", "c-3"]
    found = {0: [("k", "c-2"), ("k", "c-1"), ("k", "c-3"), ("k", "c-3")]}
    told = anomalies(found, [sender])
    assert any("c-0 was acknowledged and is lost" in line for line in told)
    assert any("c-3 is there 2 times" in line for line in told)
    assert any("c-1 of k stands behind 2" in line for line in told)
    assert len(told) == 3
