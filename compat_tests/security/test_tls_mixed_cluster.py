"""Two nodes of Odradek and one of Apache Kafka 4.3.1 in one cluster, with mutual TLS between nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from compat_tests.cluster.mixed import MixedCluster
from tests.server.harness.certificates import Authority
from tests.server.harness.cluster_process import COMBINED, ClusterNode
from tests.server.harness.tls_cluster import secure

pytestmark = [pytest.mark.timeout(300), pytest.mark.oracle]

APACHE = 1
RECORDS = 30


class TlsMixedCluster(MixedCluster):
    def __init__(self, directory: Path) -> None:
        self._authority = Authority()
        super().__init__(directory, [COMBINED] * 3, min_insync_replicas="3")

    def _format(self, node: ClusterNode) -> None:
        secure(node, self._authority.issue("127.0.0.1", "localhost", name=f"node-{node.node_id}"), self._authority)
        super()._format(node)


def test_odradek_and_apache_kafka_replicate_to_each_other_over_mutual_tls(java_tools: None, tmp_path: Path) -> None:
    cluster = TlsMixedCluster(tmp_path)
    cluster.node(APACHE).is_apache = True
    with cluster:
        cluster.create_topic("replicated", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
        for number in range(RECORDS):  # acknowledged by all three replicas, whichever leads
            producer.send("replicated", b"%d" % number, partition=number % 3).get(timeout=60)
        producer.close()
        consumer = KafkaConsumer("replicated", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
        assert {next(consumer).value for _ in range(RECORDS)} == {b"%d" % number for number in range(RECORDS)}
        consumer.close()
        cluster.nodes[2].kill()
        cluster.until(lambda: cluster.controller(cluster.nodes[3]) in (1, 3), "a controller after one of ours died")
