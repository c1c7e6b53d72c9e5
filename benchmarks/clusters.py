"""Three or more nodes of either broker on this machine, as their own projects start them, for comparisons of clusters."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from compat_tests.broker_process import BrokerProcess, free_port, start_all
from compat_tests.java.fetch import ORACLE, classpath, java
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

from .brokers import APACHE_NAME, KAFKA_JVM, Cost, memory_mb

NODES = 3
#: Also for larger clusters: a quorum of three survives the death of one controller.
CONTROLLERS = 3
REPLICAS = 3
_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_NOT_YET = (5, 38, 41, 7)  # no leader yet, too few brokers yet, no controller yet, timed out
DEADLINE_S = 120


class MeasuredNode(BrokerProcess):
    """A node, formatted beforehand, so that a start includes nothing else. Both brokers get the same few properties. A node
    without a controller port is only a broker.
    """

    def __init__(
        self,
        kind: str,
        node_id: int,
        ports: dict[int, tuple[int, int]],
        directory: Path,
        jvm: Sequence[str] = KAFKA_JVM,
    ) -> None:
        super().__init__(directory, start_deadline_s=DEADLINE_S)
        self._jvm = jvm
        self.name, self.node_id = f"{kind} {node_id}", node_id
        self.is_apache = kind == APACHE_NAME
        self.port, controller_port = ports[node_id]
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, (_, port) in ports.items() if port)
        own = f",CONTROLLER://127.0.0.1:{controller_port}" if controller_port else ""
        properties = {
            "process.roles": "broker,controller" if controller_port else "broker",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}{own}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(self.data_dir),
            "group.initial.rebalance.delay.ms": "0",
        }
        self._file = directory / "server.properties"
        self._file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    def format(self) -> None:
        words = ["format", "--cluster-id", _CLUSTER_ID]
        if self.is_apache:
            command = [java(), "-cp", classpath(ORACLE), "kafka.tools.StorageTool", *words, "-c", str(self._file)]
        else:
            command = [sys.executable, "-m", "odradek", *words, str(self._file)]
        subprocess.run(command, check=True, capture_output=True)

    def command(self) -> list[str]:
        if self.is_apache:
            return [java(), *self._jvm, "-cp", classpath(ORACLE), "kafka.Kafka", str(self._file)]
        return [sys.executable, "-m", "odradek", "start", str(self._file)]

    def environment(self) -> dict[str, str]:
        return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


class MeasuredCluster:
    """A context; `start_s` is the time from the first exec until each node has all nodes in its metadata and serves."""

    def __init__(self, kind: str, directory: Path, nodes: int = NODES, jvm: Sequence[str] = KAFKA_JVM) -> None:
        ports = {node: (free_port(), free_port() if node <= CONTROLLERS else 0) for node in range(1, nodes + 1)}
        places = {node_id: directory / f"node-{node_id}" for node_id in ports}
        self.nodes = {node_id: MeasuredNode(kind, node_id, ports, places[node_id], jvm) for node_id in ports}
        self.start_s = 0.0

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def __enter__(self) -> MeasuredCluster:
        try:
            for node in self.nodes.values():
                node.format()
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def start(self) -> None:
        began = time.perf_counter()
        start_all(self.nodes.values())
        eventually(
            lambda: all(self._knows_all(node) for node in self.nodes.values()), what="all know all", deadline_s=120
        )
        self.start_s = time.perf_counter() - began

    def _knows_all(self, node: MeasuredNode) -> bool:
        with WireClient(node.bootstrap) as client:
            return len(client.call(MetadataRequest(topics=[]), 9).brokers) == len(self.nodes)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            node.kill()

    # ---- its costs

    def cpu_s(self) -> float:
        return sum(Cost.of(node.pid).cpu_s for node in self.nodes.values() if node.is_running)

    def memory_mb(self) -> float:
        return sum(memory_mb(node.pid) for node in self.nodes.values())

    # ---- its metadata

    def _ask(self, request: object, version: int) -> object:
        """Returns the response of the first running node."""
        for node in self.nodes.values():
            if node.is_running:
                with WireClient(node.bootstrap) as client:
                    return client.call(request, version)  # type: ignore[arg-type]
        raise LookupError("no node runs")

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Creates a topic with three replicas, and returns when all are in sync."""
        wanted = CreateTopicsRequest([CreatableTopic(name, partitions, REPLICAS)], timeout_ms=30_000)

        def made() -> bool:
            response = self._ask(wanted, 7).topics[0]  # type: ignore[attr-defined]
            assert response.error_code in (0, 36, *_NOT_YET), response
            return response.error_code in (0, 36)

        eventually(made, what=f"{name} is made", deadline_s=DEADLINE_S)
        self.await_in_sync(name)

    def await_in_sync(self, name: str) -> None:
        eventually(lambda: self._in_sync(name), what=f"all replicas of {name} are in sync", deadline_s=DEADLINE_S)

    def _in_sync(self, name: str) -> bool:
        partitions = self._partitions(name)
        return bool(partitions) and all(len(one.isr_nodes) == REPLICAS for one in partitions)

    def _partitions(self, name: str) -> list:  # type: ignore[type-arg]
        asked = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        return list(self._ask(asked, 9).topics[0].partitions)  # type: ignore[attr-defined]

    def leader_of(self, name: str) -> int:
        return int(self._partitions(name)[0].leader_id)

    def controller(self) -> int:
        asked = DescribeQuorumRequest(
            [DescribeQuorumTopicRequest("__cluster_metadata", [DescribeQuorumPartitionRequest(0)])]
        )
        return int(self._ask(asked, 1).topics[0].partitions[0].leader_id)  # type: ignore[attr-defined]
