"""Three nodes that log in to each other: SCRAM between brokers, PLAIN between controllers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from odradek.cli.scram_option import scram_user
from odradek.metadata.configs import InvalidConfig
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.quorum.formatting import format_directories
from odradek.server.runtime.metadata_cache import MetadataCache
from odradek.server.security.authentication.sasl_listeners import SaslListeners

from compat_tests.broker_process import free_port
from tests.server.cluster_process import CLUSTER_ID, COMBINED, Cluster, ClusterNode

SECRET = "between-brokers-1f0a"
CONTROLLERS_SECRET = "between-controllers-77c2"
SESSION_MS = 6000
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
MAP = "PLAINTEXT:PLAINTEXT,BROKERS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
SECURED = {
    "listener.security.protocol.map": MAP,
    "inter.broker.listener.name": "BROKERS",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.brokers.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.brokers.scram-sha-512.sasl.jaas.config": f'{SCRAM} username="broker" password="{SECRET}";',
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{PLAIN} username="node" password="{CONTROLLERS_SECRET}" user_node="{CONTROLLERS_SECRET}";'
    ),
    "connections.max.reauth.ms": str(SESSION_MS),
}


class SecuredCluster(Cluster):
    def add(self, node_id: int, role: str = COMBINED) -> ClusterNode:
        node = super().add(node_id, role)
        node.properties |= SECURED
        node.properties["listeners"] += f",BROKERS://127.0.0.1:{free_port()}"
        users = [scram_user(f"SCRAM-SHA-512=[name=broker,password={SECRET}]")]
        format_directories(BrokerConfig(node.properties), CLUSTER_ID, ignore_formatted=True, users=users)
        return node

    def _format(self, node: ClusterNode) -> None:
        pass


def logs(cluster: Cluster) -> str:
    return "".join(file.read_text() for node in cluster.nodes.values() for file in (node.log_file, node.output_file))


def test_nodes_log_in_at_each_other_and_renew_their_sessions(tmp_path: Path) -> None:
    with SecuredCluster(tmp_path, [COMBINED] * 3) as cluster:
        cluster.create_topic("replicated", replication_factor=3, num_partitions=3)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 50})
        deadline, count = time.monotonic() + 1.2 * SESSION_MS / 1000, 0
        while time.monotonic() < deadline:
            producer.produce("replicated", str(count), partition=count % 3)
            producer.poll(0.01)
            count += 1
        assert producer.flush(30) == 0

        def in_sync() -> bool:
            return all(len(one.isr_nodes) == 3 for one in cluster.partitions("replicated").values())

        cluster.until(in_sync, "all replicas are in sync")
        reported = logs(cluster)
    assert "session has expired" not in reported
    assert "failed authentication" not in reported
    assert SECRET not in reported
    assert CONTROLLERS_SECRET not in reported


def properties(**more: str) -> dict[str, Any]:
    listeners = "PLAINTEXT://127.0.0.1:0,BROKERS://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    voters = "1@127.0.0.1:1,2@127.0.0.1:2"
    node = {"node.id": "1", "process.roles": COMBINED, "controller.listener.names": "CONTROLLER"}
    return {**node, "listeners": listeners, "controller.quorum.voters": voters, **SECURED, **more}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "DIGEST-MD5"}, "sasl.mechanism.inter.broker.protocol: DIGEST-MD5"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "brokers.gssapi.sasl.jaas.config is not set"),
        (
            {"sasl.mechanism.controller.protocol": "SCRAM-SHA-256"},
            "controller.scram-sha-256.sasl.jaas.config is not set",
        ),
        (
            {"listener.name.controller.plain.sasl.jaas.config": f"{PLAIN} username=a;"},
            "password of this node's login is missing",
        ),
    ],
)
def test_a_node_that_could_not_log_in_does_not_start(more: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        SaslListeners(BrokerConfig(properties(**more)), MetadataCache()).check()
