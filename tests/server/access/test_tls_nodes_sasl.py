"""Three nodes that log in to each other over TLS."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.server.harness.certificates import Authority
from tests.server.harness.cluster_process import COMBINED, Cluster, ClusterNode
from tests.server.harness.tls_cluster import secure

pytestmark = pytest.mark.usefixtures("processes")

_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="node" password="node-secret-41" user_node="node-secret-41";'
)


class SaslSslCluster(Cluster):
    def __init__(self, directory: Path) -> None:
        self._authority = Authority()
        super().__init__(directory, [COMBINED] * 3, min_insync_replicas="3")

    def _format(self, node: ClusterNode) -> None:
        secure(node, self._authority.issue("127.0.0.1", name=f"node-{node.node_id}"), self._authority)
        node.properties |= {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_SSL,CONTROLLER:SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.internal.plain.sasl.jaas.config": _JAAS,
            "listener.name.controller.plain.sasl.jaas.config": _JAAS,
        }
        super()._format(node)


def test_three_nodes_replicate_over_sasl_ssl(tmp_path: Path) -> None:
    with SaslSslCluster(tmp_path) as cluster:
        cluster.create_topic("replicated", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
        for number in range(6):  # acknowledged by all three, whichever leads
            producer.send("replicated", b"value", partition=number % 3).get(timeout=60)
        producer.close()
