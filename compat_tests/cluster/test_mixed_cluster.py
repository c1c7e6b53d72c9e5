"""Two nodes of Odradek and one of Apache Kafka 4.3.1 in one cluster and quorum: each leads, controls and follows the others.

The tests are the steps of one scenario, in this order; clients send and read orders all along.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest

from compat_tests.access import granted
from compat_tests.cluster.asyncio_clients import AiokafkaSender
from compat_tests.cluster.kafka_python_refresh import outliving_resets
from compat_tests.cluster.mixed import MixedCluster
from compat_tests.cluster.orders import TOPIC, KafkaPythonSender, LibrdkafkaSender, Sender
from compat_tests.cluster.readers import Billing, KafkaPythonReader, Reader
from compat_tests.cluster.scenario import Scenario
from compat_tests.cluster.secured import SecuredMixedCluster, access_of
from compat_tests.faults.replicas import differing
from tests.server.harness.cluster_process import COMBINED

pytestmark = [pytest.mark.timeout(900), pytest.mark.oracle]

#: A leader that resigns names the lowest of equally caught-up voters first.
APACHE = 1
OURS = (2, 3)
_PREFERRED = 0


@pytest.fixture(scope="module", params=[MixedCluster, SecuredMixedCluster], ids=["plain", "secured"])
def execute(
    java_tools: None, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Scenario]:
    # Apache Kafka fences a broker when its session expires.
    impatient = {"broker_session_timeout_ms": "3000", "broker_heartbeat_interval_ms": "500"}
    # A node that is merely slow stays the controller; the end of a process is noticed by its connections.
    impatient["controller_quorum_fetch_timeout_ms"] = "12000"
    overrides = {"offsets_topic_num_partitions": "3", "min_insync_replicas": "2", **impatient}
    kind: type[MixedCluster] = request.param
    cluster = kind(tmp_path_factory.mktemp("mixed"), [COMBINED] * 3, **overrides)
    cluster.node(APACHE).is_apache = True
    with granted(access_of(cluster)), cluster, outliving_resets(), contextlib.ExitStack() as clients:
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        bootstrap = cluster.bootstrap
        senders: list[Sender] = [
            LibrdkafkaSender("librdkafka", bootstrap),
            KafkaPythonSender("kafka-python", bootstrap),
            AiokafkaSender("aiokafka", bootstrap),
        ]
        readers: list[Reader] = [Billing(bootstrap), KafkaPythonReader("kafka-python", bootstrap)]
        execute = Scenario(cluster, senders, readers, has_apache=True)
        execute.begin()
        for client in (*senders, *readers):
            clients.callback(client.end)  # type: ignore[attr-defined]
        yield execute


def mixed(execute: Scenario) -> MixedCluster:
    assert isinstance(execute.cluster, MixedCluster)
    return execute.cluster


def elect_preferred_leaders(execute: Scenario) -> None:
    def are_elected() -> bool:
        """Asks until they are elected: the controller may have fenced one for a moment, or may just move."""
        execute.cluster.ask_any(ElectLeadersRequest(_PREFERRED, None, 30_000), 2)
        return execute.leaders() == {0: 1, 1: 2, 2: 3}

    execute.cluster.until(are_elected, "the preferred replicas lead")


def create_and_see_everywhere(execute: Scenario, topic: str) -> None:
    """Creates a topic through one controller, and waits until all nodes describe it alike."""
    execute.cluster.create_topic(topic, num_partitions=2, replication_factor=3)
    nodes = execute.cluster.running()
    assert len(nodes) == 3
    execute.cluster.until(
        lambda: len({str(execute.cluster.partitions(topic, node)) for node in nodes}) == 1, "all say the same"
    )


def test_leaders_and_followers_are_of_both(execute: Scenario) -> None:
    execute.goes_on()
    elect_preferred_leaders(execute)
    execute.goes_on()
    create_and_see_everywhere(execute, "made-first")


def test_apache_kafkas_controller_moves_what_a_broker_of_ours_led_and_gives_it_back(execute: Scenario) -> None:
    execute.hand_controller_to(APACHE)
    create_and_see_everywhere(execute, "made-by-apache-kafka")
    execute.goes_on()
    killed = OURS[0]
    execute.cluster.nodes[killed].kill()
    execute.cluster.until(lambda: {killed, -1}.isdisjoint(execute.leaders().values()), "others lead")
    assert execute.controller() == APACHE
    execute.goes_on()
    execute.is_whole()
    elect_preferred_leaders(execute)
    execute.goes_on()


def test_ours_control_and_lead_when_apache_kafkas_node_is_killed_and_it_catches_up(execute: Scenario) -> None:
    # A slow machine may have moved either since the last step.
    execute.hand_controller_to(APACHE)
    elect_preferred_leaders(execute)
    execute.cluster.nodes[APACHE].kill()
    execute.cluster.until(lambda: execute.cluster.controller() in OURS, "one of ours is active")
    execute.cluster.until(lambda: {APACHE, -1}.isdisjoint(execute.leaders().values()), "ours lead")
    execute.goes_on()
    execute.is_whole()
    create_and_see_everywhere(execute, "made-by-us")
    elect_preferred_leaders(execute)
    execute.goes_on()


def test_a_data_directory_of_apache_kafka_is_gone_on_with_by_us_and_again_by_apache_kafka(execute: Scenario) -> None:
    node = mixed(execute).node(APACHE)
    for apache in (False, True):
        node.becomes(apache=apache)
        execute.is_whole()
        create_and_see_everywhere(execute, f"made-when-apache-is-{apache}")
        elect_preferred_leaders(execute)
        execute.goes_on()


def test_in_the_end_every_order_is_there_once_and_in_order_on_equal_replicas(execute: Scenario) -> None:
    execute.ends()
    data: list[Path] = [node.data_dir for node in execute.cluster.nodes.values()]
    execute.cluster.until(lambda: list(differing(data, TOPIC, 3)) == [], "the replicas hold the same bytes")
