"""Three nodes whose brokers and controllers connect to each other over mutual TLS."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from tests.server.harness.certificates import Authority, Identity
from tests.server.harness.cluster_process import COMBINED, Cluster, ClusterNode
from tests.server.harness.tls_cluster import secure

pytestmark = pytest.mark.usefixtures("processes")


class TlsCluster(Cluster):
    """A cluster whose clients use no TLS. `identities` has the key of each node."""

    def __init__(self, directory: Path, count: int, authority: Authority, identities: dict[int, Identity]) -> None:
        self.authority, self.identities = authority, identities
        super().__init__(directory, [COMBINED] * count)

    def _format(self, node: ClusterNode) -> None:
        secure(node, self.identities[node.node_id], self.authority)
        super()._format(node)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def test_three_nodes_replicate_over_mutual_tls(authority: Authority, tmp_path: Path) -> None:
    identities = {node_id: authority.issue("127.0.0.1", name=f"node-{node_id}") for node_id in (1, 2, 3)}
    with TlsCluster(tmp_path, 3, authority, identities) as cluster:
        cluster.create_topic("replicated", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
        for number in range(30):
            producer.send("replicated", b"%d" % number, partition=number % 3).get(timeout=60)
        producer.close()
        cluster.nodes[1].kill()
        consumer = KafkaConsumer("replicated", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
        assert {next(consumer).value for _ in range(30)} == {b"%d" % number for number in range(30)}
        consumer.close()
        cluster.until(lambda: cluster.controller(cluster.nodes[2]) in (2, 3), "another controller")


def test_node_with_the_name_of_another_host_is_not_connected_to(authority: Authority, tmp_path: Path) -> None:
    identities = {node_id: authority.issue("127.0.0.1", name=f"node-{node_id}") for node_id in (1, 2)}
    identities[3] = authority.issue("elsewhere.example", name="node-3")
    with TlsCluster(tmp_path, 3, authority, identities) as cluster:
        cluster.create_topic("replicated", [[3, 1, 2]])
        warned = re.compile(r"WARNING odradek.peers: no connection to 127.0.0.1:\d+: its certificate is not trusted: ")
        for node in (cluster.nodes[1], cluster.nodes[2]):
            cluster.until(lambda node=node: warned.search(node.log_file.read_text()), "a line that names the reason")
