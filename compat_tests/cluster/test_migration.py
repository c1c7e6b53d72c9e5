"""Three nodes of Apache Kafka become Odradek one after the other, on the same directories, and go back, under load. One of
them is replaced by a new node of Odradek, and that by a new node of Apache Kafka. A node of the next release of Apache
Kafka takes each role beside two nodes of Odradek.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator
from pathlib import Path

import pytest
from odradek.protocol.messages.api_versions import ApiVersionsRequest

from compat_tests.cluster.mixed import DynamicMixedCluster, MixedCluster
from compat_tests.cluster.orders import TOPIC, LibrdkafkaSender, Sender
from compat_tests.cluster.readers import Billing
from compat_tests.cluster.scenario import Scenario
from compat_tests.cluster.ways import by_new_ids, raise_kraft_version, voters
from compat_tests.faults.replicas import compare_all
from compat_tests.java.fetch import SPECIFICATION
from tests.server.harness.cluster_process import COMBINED

pytestmark = [pytest.mark.timeout(600), pytest.mark.oracle]

_OVERRIDES = {
    "offsets_topic_num_partitions": "3",
    "min_insync_replicas": "2",
    "broker_session_timeout_ms": "3000",
    "broker_heartbeat_interval_ms": "500",
    "controller_quorum_fetch_timeout_ms": "6000",
}


#: An API whose highest version 4.4.0 raises: 4.3.1 has version 2.
_DELETE_GROUPS, _DELETE_GROUPS_OF_SPECIFICATION = 42, 3


@pytest.mark.parametrize("kind", [MixedCluster, DynamicMixedCluster], ids=["static", "dynamic"])
def test_cluster_moves_to_odradek_and_back_with_every_order_once(
    kind: type[MixedCluster], java_tools: None, tmp_path: Path
) -> None:
    cluster = kind(tmp_path, [COMBINED] * 3, **_OVERRIDES)
    with running(cluster) as execute:
        for to_apache in (False, True):
            for node_id in cluster.nodes:
                cluster.node(node_id).becomes(apache=to_apache)
                execute.is_whole()
                execute.goes_on()
        end(execute)


def test_a_new_node_takes_over_voter_and_replicas_and_hands_them_on(java_tools: None, tmp_path: Path) -> None:
    cluster = DynamicMixedCluster(tmp_path, [COMBINED] * 3, **_OVERRIDES)
    with running(cluster) as execute:
        for step in by_new_ids(execute, ((1, 4, False), (4, 5, True))):
            step()
            execute.goes_on()
        assert set(cluster.nodes) == set(voters(cluster)) == {2, 3, 5}
        end(execute)


@pytest.mark.parametrize("kind", [MixedCluster, DynamicMixedCluster], ids=["static, then upgraded", "dynamic"])
def test_a_node_of_the_next_release_leads_and_controls_beside_odradek_and_changes_to_it_and_back(
    kind: type[MixedCluster], java_tools: None, tmp_path: Path
) -> None:
    cluster = kind(tmp_path, [COMBINED] * 3, **_OVERRIDES)
    cluster.node(1).version = SPECIFICATION
    with running(cluster, apache=(1,)) as execute:
        assert highest_version(cluster, 1, _DELETE_GROUPS) == _DELETE_GROUPS_OF_SPECIFICATION
        execute.elect_preferred(0)
        execute.goes_on()
        execute.hand_controller_to(1)
        cluster.create_topic("made-by-the-next-release", num_partitions=2, replication_factor=3)
        execute.goes_on()
        for to_apache in (False, True):
            cluster.node(1).becomes(apache=to_apache)
            execute.is_whole()
            execute.elect_preferred(0)
            execute.goes_on()
        if not isinstance(cluster, DynamicMixedCluster):
            raise_kraft_version(cluster)
            cluster.node(1).becomes(apache=True)
            execute.is_whole()
            execute.goes_on()
        end(execute)


def highest_version(cluster: MixedCluster, node_id: int, api_key: int) -> int:
    response = cluster.nodes[node_id].ask(ApiVersionsRequest(), 0)
    return next(api.max_version for api in response.api_keys if api.api_key == api_key)


@contextlib.contextmanager
def running(cluster: MixedCluster, apache: Container[int] = range(1, 4)) -> Iterator[Scenario]:
    """Starts the nodes, those in `apache` as Apache Kafka, with clients that send and read orders."""
    for node_id in cluster.nodes:
        cluster.node(node_id).is_apache = node_id in apache
    with cluster, contextlib.ExitStack() as clients:
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        senders: list[Sender] = [LibrdkafkaSender("librdkafka", cluster.bootstrap)]
        execute = Scenario(cluster, senders, [Billing(cluster.bootstrap)], has_apache=True)
        execute.begin()
        for client in (*execute.senders, *execute.readers):
            clients.callback(client.end)  # type: ignore[attr-defined]
        execute.goes_on()
        yield execute


def end(execute: Scenario) -> None:
    execute.ends()
    data = [node.data_dir for node in execute.cluster.nodes.values()]
    execute.cluster.until(lambda: not compare_all(data, 3).differing, "the replicas hold the same bytes")
