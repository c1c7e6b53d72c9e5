"""A cluster whose nodes run Odradek or Apache Kafka, and may change from one to the other on the same directory."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from odradek.protocol.uuids import uuid_from_text
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import InitialVoter, format_directories

from compat_tests.broker_process import BrokerProcess, free_port
from compat_tests.java.fetch import ORACLE
from compat_tests.oracle import NODE_HEAP, formatted_node_command
from tests.server.harness.cluster_process import CLUSTER_ID, Cluster, ClusterNode

#: Three JVMs start at once, beside other tests.
_START_S = 300


class EitherNode(ClusterNode):
    """A node with the same ports, properties and data for either broker; Odradek formatted it."""

    def __init__(self, directory: Path, node_id: int, properties: dict[str, str]) -> None:
        super().__init__(directory, node_id, properties)
        self.start_deadline_s = _START_S
        self.is_apache = False
        #: The release that runs as Apache Kafka.
        self.version = ORACLE
        self.heap = NODE_HEAP

    def command(self) -> list[str]:
        ours = super().command()
        return formatted_node_command(self.file, self.version, self.heap) if self.is_apache else ours

    def _wait(self, deadline: float) -> None:
        if self.is_apache:
            BrokerProcess._wait(self, deadline)
        else:
            super()._wait(deadline)

    def _serves(self) -> bool:
        """Returns whether the node answers; a mere controller does not answer Metadata requests."""
        if self.is_broker:
            return super()._serves()
        with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 5):
            return True
        return False

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

    @property
    def has_started(self) -> bool:
        return any(node.starts for node in self.nodes.values())


class DynamicMixedCluster(MixedCluster):
    """A mixed cluster whose voters are in the quorum's log (kraft.version 1), as after `format --initial-controllers`. A
    controller that is added after the first start joins the quorum by itself (KIP-1186).
    """

    def _format(self, node: ClusterNode) -> None:
        voters = self.use_dynamic_voters(node)
        format_directories(BrokerConfig(node.properties), CLUSTER_ID, initial_voters=voters)

    def use_dynamic_voters(self, node: ClusterNode) -> list[InitialVoter]:
        """Changes the node's properties. Returns the voters that its directory is formatted with."""
        del node.properties["controller.quorum.voters"]
        node.properties["controller.quorum.bootstrap.servers"] = self.controllers
        if node.node_id not in self.controller_ports:
            return []
        if self.has_started:
            node.properties["controller.quorum.auto.join.enable"] = "true"
            return []
        return [
            InitialVoter(node_id, "127.0.0.1", port, directory_id(node_id))
            for node_id, port in self.controller_ports.items()
        ]

    @property
    def controllers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.controller_ports.values())

    def add_node(self, node_id: int, role: str, *, apache: bool) -> EitherNode:
        """Adds a node that is started later, and names its controller to the others for their next start."""
        if "controller" in role:
            self.controller_ports[node_id] = free_port()
        self.add(node_id, role)
        made = self.node(node_id)
        made.is_apache = apache
        self._name_controllers()
        return made

    def forget(self, node_id: int) -> None:
        """Drops a node that has stopped for good."""
        assert not self.nodes[node_id].is_running
        del self.nodes[node_id]
        self.controller_ports.pop(node_id, None)
        self._name_controllers()

    def _name_controllers(self) -> None:
        for node in self.nodes.values():
            node.properties["controller.quorum.bootstrap.servers"] = self.controllers


def directory_id(node_id: int) -> bytes:
    """Returns the id of a voter's directory."""
    return uuid_from_text(f"odradek-voter-{node_id:07d}A")
