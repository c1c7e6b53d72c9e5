"""`order-events`, 3 partitions, replication factor 3, 3 brokers; clients run all along, and the final counts are exact.

The tests are the steps of one scenario, in this order. docs/failover.md describes it.
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

from compat_tests.access import granted
from compat_tests.cluster.asyncio_clients import AiokafkaReader, AiokafkaSender
from compat_tests.cluster.java_client import JavaSender
from compat_tests.cluster.orders import TOPIC, KafkaPythonSender, LibrdkafkaSender, Sender, anomalies
from compat_tests.cluster.readers import Billing, KafkaPythonReader
from compat_tests.cluster.scenario import Scenario
from compat_tests.cluster.secured import SecuredCluster, access_of
from compat_tests.cluster.spark_client import SparkQuery
from tests.server.harness.cluster_process import BROKER, COMBINED, Cluster

pytestmark = pytest.mark.timeout(900)

_TOPIC_RESOURCE, _SET = 2, 0


@pytest.fixture(scope="module", params=[Cluster, SecuredCluster], ids=["plain", "secured"])
def execute(
    java_tools: None, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Scenario]:
    overrides = {"offsets_topic_num_partitions": "3", "min_insync_replicas": "2"}
    directory = tmp_path_factory.mktemp("orders")
    kind: type[Cluster] = request.param
    made = kind(directory, [COMBINED] * 3, **overrides)
    with granted(access_of(made)), made as cluster, contextlib.ExitStack() as clients:
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        # A client finds all brokers through one. Spark creates clients all along, so it needs the address of a live broker.
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
        execute = Scenario(cluster, senders, readers, query)
        execute.begin()
        for client in (*senders, *readers):
            clients.callback(client.end)  # type: ignore[attr-defined]
        yield execute


def test_the_leader_of_one_partition_is_killed(execute: Scenario) -> None:
    execute.goes_on()
    execute.query_goes_on()
    controller = execute.controller()
    killed = next(leader for leader in execute.leaders().values() if leader != controller)
    execute.cluster.nodes[killed].kill()
    execute.cluster.until(lambda: {killed, -1}.isdisjoint(execute.leaders().values()), "others lead")
    execute.goes_on()
    execute.is_whole()


def test_a_broker_that_leads_several_is_killed(execute: Scenario) -> None:
    leaders = list(execute.leaders().values())
    killed = max(set(leaders), key=leaders.count)
    assert leaders.count(killed) >= 2
    execute.cluster.nodes[killed].kill()
    execute.cluster.until(lambda: {killed, -1}.isdisjoint(execute.leaders().values()), "others lead")
    execute.goes_on()
    execute.is_whole()


def test_the_active_controller_is_killed(execute: Scenario) -> None:
    killed = execute.controller()
    execute.cluster.nodes[killed].kill()
    execute.cluster.until(lambda: execute.cluster.controller() not in (killed, -1), "another is active")
    execute.goes_on()
    execute.is_whole()


def test_a_broker_and_the_controller_are_killed_at_once_and_come_back(execute: Scenario) -> None:
    controller = execute.controller()
    other = next(node_id for node_id in execute.cluster.nodes if node_id != controller)
    for killed in (controller, other):
        execute.cluster.nodes[killed].kill()
    execute.is_whole()
    execute.goes_on()
    execute.query_goes_on()


def test_partitions_move_to_a_fourth_broker(execute: Scenario) -> None:
    execute.cluster.add(4, BROKER).start()
    execute.reassign({0: [4, 2, 3], 1: [2, 4, 1]})
    execute.elect_preferred(0)
    assert execute.leaders()[0] == 4
    execute.goes_on()


def test_partitions_are_added(execute: Scenario) -> None:
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(TOPIC, 5, assignments=None)], timeout_ms=30_000)
    assert execute.cluster.ask_any(request, 3).results[0].error_code == 0
    execute.cluster.until(lambda: len(execute.cluster.partitions(TOPIC)) == 5, "five partitions")
    execute.goes_on()


def test_the_replication_factor_is_raised_and_lowered(execute: Scenario) -> None:
    execute.reassign({2: [3, 1, 2, 4]})
    execute.goes_on()
    execute.reassign({2: [3, 1]})
    execute.goes_on()


def test_configurations_change_without_downtime(execute: Scenario) -> None:
    changed = AlterableConfig("segment.bytes", _SET, "1048576")
    resource = AlterConfigsResource(_TOPIC_RESOURCE, TOPIC, [changed])
    response = execute.cluster.ask_any(IncrementalAlterConfigsRequest([resource]), 1)
    assert response.responses[0].error_code == 0, response
    execute.goes_on()
    execute.query_goes_on()


def test_a_group_rewinds_and_works_off_its_backlog_while_a_broker_is_stopped(execute: Scenario) -> None:
    behind = len(execute.senders[0].acknowledged)
    billing = execute.readers[0]
    assert isinstance(billing, Billing)
    billing.rewind()
    stopped = next(node_id for node_id in (1, 2, 3) if node_id != execute.controller())
    assert execute.cluster.nodes[stopped].stop() == 0
    execute.cluster.until(lambda: len(billing.seen) > behind, "the backlog is read")
    execute.cluster.nodes[stopped].start()
    execute.goes_on()


def test_in_the_end_every_order_is_there_once_and_in_order_and_everybody_has_read_it(execute: Scenario) -> None:
    execute.ends()
    assert execute.query is not None
    kept = execute.query.end()
    assert {index: [order[0] for order in orders] for index, orders in kept.items()} == {
        index: list(range(len(orders))) for index, orders in execute.found.items()
    }
    assert {index: [order[1:] for order in orders] for index, orders in kept.items()} == execute.found


def test_the_checks_bite() -> None:
    """The final checks find injected faults."""
    sender = Sender("c", "")
    sender.acknowledged = ["c-0", "c-1", "c-2", "c-3"]
    found = {0: [("k", "c-2"), ("k", "c-1"), ("k", "c-3"), ("k", "c-3")]}
    reported = anomalies(found, [sender])
    assert any("c-0 was acknowledged and is lost" in line for line in reported)
    assert any("c-3 is there 2 times" in line for line in reported)
    assert any("c-1 of k stands behind 2" in line for line in reported)
    assert len(reported) == 3
