"""A cluster of processes that log in to each other."""

from __future__ import annotations

from odradek.cli.scram_option import scram_user
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import format_directories

from compat_tests.broker_process import free_port
from tests.server.harness.cluster_process import CLUSTER_ID, COMBINED, Cluster, ClusterNode

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
