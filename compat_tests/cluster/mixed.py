"""A cluster whose nodes run Odradek or Apache Kafka, and may change from one to the other on the same directory."""

from __future__ import annotations

from pathlib import Path

from compat_tests.broker_process import BrokerProcess
from compat_tests.oracle import node_command
from tests.server.cluster_process import CLUSTER_ID, Cluster, ClusterNode

_START_S = 120


class EitherNode(ClusterNode):
    """A node with the same ports, properties and data for either broker; Odradek formatted it."""

    def __init__(self, directory: Path, node_id: int, properties: dict[str, str]) -> None:
        super().__init__(directory, node_id, properties)
        self.start_deadline_s = _START_S
        self.is_apache = False

    def command(self) -> list[str]:
        ours = super().command()
        return node_command(CLUSTER_ID, self.file) if self.is_apache else ours

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
