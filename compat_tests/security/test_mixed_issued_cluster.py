"""A cluster of Odradek and Apache Kafka nodes that authenticate each other: Kerberos for brokers, OAuth for controllers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.broker_process import free_port
from compat_tests.cluster.mixed import EitherNode, MixedCluster
from compat_tests.security.round_trips import DEADLINE_S
from tests.security.harness.sasl_cluster import logs
from tests.security.issuer import AUDIENCE, ISSUER, Issuer, KeyServer
from tests.security.kdc import REALM, Kdc
from tests.server.harness.cluster_process import COMBINED, ClusterNode

RECORDS = 300
#: Longer than the test.
TOKEN_S = 3600
OAUTH = "org.apache.kafka.common.security.oauthbearer"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"


@pytest.fixture
def kdc(tmp_path: Path) -> Iterator[Kdc]:
    (tmp_path / "kdc").mkdir()
    with Kdc(tmp_path / "kdc") as center:
        yield center


@pytest.fixture
def issuer() -> Iterator[KeyServer]:
    issued = Issuer()
    with KeyServer(issued.key_set(), issued, exp=int(time.time()) + TOKEN_S) as server:
        yield server


class IssuedNode(EitherNode):
    """A node whose Java properties give Apache Kafka the key distribution center, and allow it the issuer's URL."""

    kdc: Kdc
    issuer: KeyServer

    def environment(self) -> dict[str, str]:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.issuer.url}"
        java = {"JDK_JAVA_OPTIONS": f"-Djava.security.krb5.conf={self.kdc.config} {allowed}"}
        return {**super().environment(), **self.kdc.environment, **java}


class IssuedCluster(MixedCluster):
    node_class = IssuedNode

    def __init__(self, directory: Path, kdc: Kdc, issuer: KeyServer) -> None:
        self.keytab, self.issuer = kdc.keytab("kafka/localhost"), issuer
        IssuedNode.kdc, IssuedNode.issuer = kdc, issuer
        super().__init__(directory, [COMBINED] * 3)

    def add(self, node_id: int, role: str = COMBINED) -> ClusterNode:
        node = super().add(node_id, role)
        node.properties |= {
            "listeners": f"{node.properties['listeners']},BROKERS://localhost:{free_port()}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "listener.name.brokers.gssapi.sasl.jaas.config": (
                f'{KERBEROS} serviceName="kafka" keyTab="{self.keytab}" principal="kafka/localhost@{REALM}";'
            ),
            "sasl.mechanism.controller.protocol": "OAUTHBEARER",
            "listener.name.controller.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.controller.oauthbearer.sasl.server.callback.handler.class": (
                f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
            ),
            "listener.name.controller.oauthbearer.sasl.login.callback.handler.class": (
                f"{OAUTH}.OAuthBearerLoginCallbackHandler"
            ),
            "listener.name.controller.oauthbearer.sasl.jaas.config": (
                f"{OAUTH}.OAuthBearerLoginModule required "
                f'clientId="{self.issuer.CLIENT}" clientSecret="{self.issuer.SECRET}" scope="nodes";'
            ),
            "sasl.oauthbearer.token.endpoint.url": self.issuer.url,
            "sasl.oauthbearer.jwks.endpoint.url": self.issuer.url,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }
        return node


@pytest.mark.oracle
def test_nodes_of_both_kinds_log_in_at_each_other(
    java_tools: None, kdc: Kdc, issuer: KeyServer, tmp_path: Path
) -> None:
    cluster = IssuedCluster(tmp_path, kdc, issuer)
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
        assert KeyServer.SECRET not in logs(cluster)
        assert {one["scope"][0] for one in issuer.asked} == {"nodes"}
