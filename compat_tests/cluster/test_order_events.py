"""`order-events`, 3 partitions, replication factor 3, 3 brokers; clients work all along, and the counts come out exact.

The tests are the acts of one play, in this order. docs/failover.md tells it for people.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from compat_tests.cluster.asyncio_clients import AiokafkaReader, AiokafkaSender
from compat_tests.cluster.java_client import JavaSender
from compat_tests.cluster.orders import TOPIC, KafkaPythonSender, LibrdkafkaSender, Sender, anomalies
from compat_tests.cluster.play import Play
from compat_tests.cluster.readers import Billing, KafkaPythonReader
from compat_tests.cluster.spark_client import SparkQuery
from tests.server.cluster_process import BROKER, COMBINED, Cluster

pytestmark = pytest.mark.timeout(900)

_TOPIC_RESOURCE, _SET = 2, 0


@pytest.fixture(scope="module")
def play(java_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    overrides = {"offsets_topic_num_partitions": "3", "min_insync_replicas": "2"}
    directory = tmp_path_factory.mktemp("orders")
    with Cluster(directory, [COMBINED] * 3, **overrides) as cluster, contextlib.ExitStack() as clients:
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        # A client that knows one broker finds all. Spark makes clients anew all along, which must find one that lives.
        first, second, third = (node.bootstrap for node in cluster.nodes.values())
        query = SparkQuery(cluster.bootstrap, directory / "spark")
        clients.callback(query.kill)
        java = JavaSender(second, directory)
        clients.callback(java.close)
        senders = [
            LibrdkafkaSender("librdkafka", first),
            KafkaPythonSender("kafka-python", second),
            AiokafkaSender("aiokafka", third),
            java,
        ]
        readers = [
            Billing(third),
            KafkaPythonReader("kafka-python", first),
            AiokafkaReader("aiokafka", second),
            java.reader,
        ]
        play = Play(cluster, senders, readers, query)
        play.begin()
        for client in (*senders, *readers):
            clients.callback(client.end)
        yield play


def test_the_leader_of_one_partition_is_killed(play: Play) -> None:
    play.goes_on()
    play.query_goes_on()
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
    play.query_goes_on()


def test_partitions_move_to_a_fourth_broker(play: Play) -> None:
    play.cluster.add(4, BROKER).start()
    play.reassign({0: [4, 2, 3], 1: [2, 4, 1]})
    play.elect_preferred(0)
    assert play.leaders()[0] == 4
    play.goes_on()


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
    play.query_goes_on()


def test_a_group_rewinds_and_works_off_its_backlog_while_a_broker_is_stopped(play: Play) -> None:
    behind = len(play.senders[0].acknowledged)
    billing = play.readers[0]
    assert isinstance(billing, Billing)
    billing.rewind()
    stopped = next(node_id for node_id in (1, 2, 3) if node_id != play.controller())
    assert play.cluster.nodes[stopped].stop() == 0
    play.cluster.until(lambda: len(billing.seen) > behind, "the backlog is read")
    play.cluster.nodes[stopped].start()
    play.goes_on()


def test_in_the_end_every_order_is_there_once_and_in_order_and_everybody_has_read_it(play: Play) -> None:
    play.ends()
    assert play.query is not None
    kept = play.query.end()
    assert {index: [order[0] for order in orders] for index, orders in kept.items()} == {
        index: list(range(len(orders))) for index, orders in play.found.items()
    }
    assert {index: [order[1:] for order in orders] for index, orders in kept.items()} == play.found


def test_the_checks_bite() -> None:
    """The checks of the last act find planted faults."""
    sender = Sender("c", "")
    sender.acknowledged = ["c-0", "c-1", "c-2", "c-3"]
    found = {0: [("k", "c-2"), ("k", "c-1"), ("k", "c-3"), ("k", "c-3")]}
    told = anomalies(found, [sender])
    assert any("c-0 was acknowledged and is lost" in line for line in told)
    assert any("c-3 is there 2 times" in line for line in told)
    assert any("c-1 of k stands behind 2" in line for line in told)
    assert len(told) == 3
