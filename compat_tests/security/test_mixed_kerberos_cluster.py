"""A cluster of Odradek and Apache Kafka nodes whose brokers log in at each other by Kerberos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.broker_process import free_port
from compat_tests.cluster.mixed import EitherNode, MixedCluster
from compat_tests.security.test_kerberos import DEADLINE_S, MODULE
from tests.security.kdc import REALM, Kdc
from tests.security.test_sasl_cluster import logs
from tests.server.cluster_process import COMBINED, ClusterNode

RECORDS = 300


@pytest.fixture
def kdc(tmp_path: Path) -> Iterator[Kdc]:
    (tmp_path / "kdc").mkdir()
    with Kdc(tmp_path / "kdc") as center:
        yield center


class KerberosNode(EitherNode):
    kdc: Kdc

    def environment(self) -> dict[str, str]:
        java = {"JDK_JAVA_OPTIONS": f"-Djava.security.krb5.conf={self.kdc.config}"}
        return {**super().environment(), **self.kdc.environment, **java}


class KerberosCluster(MixedCluster):
    node_class = KerberosNode

    def __init__(self, directory: Path, kdc: Kdc) -> None:
        self.keytab = kdc.keytab("kafka/localhost")
        KerberosNode.kdc = kdc
        super().__init__(directory, [COMBINED] * 3)

    def add(self, node_id: int, role: str = COMBINED) -> ClusterNode:
        node = super().add(node_id, role)
        node.properties |= {
            "listeners": f"{node.properties['listeners']},BROKERS://localhost:{free_port()}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "listener.name.brokers.gssapi.sasl.jaas.config": (
                f'{MODULE} serviceName="kafka" keyTab="{self.keytab}" principal="kafka/localhost@{REALM}";'
            ),
        }
        return node


@pytest.mark.oracle
def test_brokers_of_both_kinds_log_in_at_each_other(java_tools: None, kdc: Kdc, tmp_path: Path) -> None:
    cluster = KerberosCluster(tmp_path, kdc)
    cluster.node(3).is_apache = True
    with cluster:
        cluster.create_topic("mixed", replication_factor=3, num_partitions=3)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        for number in range(RECORDS):
            producer.produce("mixed", str(number), partition=number % 3)
        assert producer.flush(DEADLINE_S) == 0

        def in_sync() -> bool:
            found = cluster.partitions("mixed").values()
            return len(found) == 3 and all(len(one.isr_nodes) == 3 for one in found)

        cluster.until(in_sync, "all replicas are in sync")
        assert {one.leader_id for one in cluster.partitions("mixed").values()} == {1, 2, 3}
        assert "failed authentication" not in logs(cluster)
