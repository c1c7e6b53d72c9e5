"""A cluster whose nodes run Odradek or Apache Kafka, and may change from one to the other on the same directory."""

from __future__ import annotations

from pathlib import Path

from odradek.protocol.uuids import uuid_from_text
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import InitialVoter, format_directories

from compat_tests.broker_process import BrokerProcess
from compat_tests.java.fetch import ORACLE
from compat_tests.oracle import formatted_node_command
from tests.server.harness.cluster_process import CLUSTER_ID, Cluster, ClusterNode

_START_S = 120


class EitherNode(ClusterNode):
    """A node with the same ports, properties and data for either broker; Odradek formatted it."""

    def __init__(self, directory: Path, node_id: int, properties: dict[str, str]) -> None:
        super().__init__(directory, node_id, properties)
        self.start_deadline_s = _START_S
        self.is_apache = False
        #: The release that runs as Apache Kafka.
        self.version = ORACLE

    def command(self) -> list[str]:
        ours = super().command()
        return formatted_node_command(self.file, self.version) if self.is_apache else ours

    def _wait(self, deadline: float) -> None:
        if self.is_apache:
            BrokerProcess._wait(self, deadline)
        else:
            super()._wait(deadline)

    def becomes(self, *, apache: bool) -> None:
        """Stops the node in order, and starts it with Odradek or Apache Kafka."""
        assert self.stop() == 0 or self.is_apache
        self.is_apache = apache
        self.start()


class MixedCluster(Cluster):
    node_class = EitherNode

    def node(self, node_id: int) -> EitherNode:
        found = self.nodes[node_id]
        assert isinstance(found, EitherNode)
        return found


class DynamicMixedCluster(MixedCluster):
    """A mixed cluster whose voters are in the quorum's log (kraft.version 1), as after `format --initial-controllers`."""

    def _format(self, node: ClusterNode) -> None:
        del node.properties["controller.quorum.voters"]
        servers = ",".join(f"127.0.0.1:{port}" for port in self.controller_ports.values())
        node.properties["controller.quorum.bootstrap.servers"] = servers
        voters = [
            InitialVoter(node_id, "127.0.0.1", port, directory_id(node_id))
            for node_id, port in self.controller_ports.items()
        ]
        is_voter = node.node_id in self.controller_ports
        format_directories(BrokerConfig(node.properties), CLUSTER_ID, initial_voters=voters if is_voter else ())


def directory_id(node_id: int) -> bytes:
    """Returns the id of a voter's directory."""
    return uuid_from_text(f"odradek-voter-{node_id:07d}A")
