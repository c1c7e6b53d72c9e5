"""A cluster of real processes: each node runs `odradek start server.properties`. Tests kill and restart nodes by id."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.schema import Message

from compat_tests.access import connect
from compat_tests.broker_process import free_port, start_all
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import pause_after_probe

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
DEADLINE_S = 120
COMBINED, BROKER, CONTROLLER = "broker,controller", "broker", "controller"


class ClusterNode(OdradekProcess):
    """A node of a cluster. `properties` are those of its server.properties. Its ports stay the same after a restart."""

    def __init__(self, directory: Path, node_id: int, properties: dict[str, str]) -> None:
        super().__init__(directory, properties, start_deadline_s=DEADLINE_S)
        self.node_id = node_id
        self.file = directory / "server.properties"

    def command(self) -> list[str]:
        lines = [f"{key}={value}\n" for key, value in self.properties.items()]
        self.file.write_text("".join(lines))
        return [*self.python, "-m", "odradek", "start", "-v", str(self.file)]

    @property
    def is_broker(self) -> bool:
        return "broker" in self.properties["process.roles"]

    @property
    def log_dirs(self) -> list[Path]:
        return [Path(one) for one in self.properties["log.dirs"].split(",")]

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def ask(self, request: Message, version: int) -> Any:
        with connect(self.bootstrap, timeout=10) as client:
            return client.call(request, version)


def scraped(port: int) -> dict[str, float]:
    """Returns the metrics that a node serves at its `odradek.metrics.port`."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


class Cluster:
    """A context manager that starts all nodes together and kills them at the end. `roles[0]` is that of node 1."""

    node_class: type[ClusterNode] = ClusterNode
    #: The log directories below the directory of each node; the first one has the metadata log.
    log_dirs: tuple[str, ...] = ("data",)
    #: Longest wait of `until` by default.
    deadline_s: float = DEADLINE_S

    def __init__(self, directory: Path, roles: Iterable[str], **overrides: str) -> None:
        self.directory = directory
        self.overrides = {key.replace("_", "."): value for key, value in overrides.items()}
        self.nodes: dict[int, ClusterNode] = {}
        #: The ports of brokers that are added later.
        self.reserved_ports: dict[int, int] = {}
        every = list(enumerate(roles, 1))
        self.controller_ports = {node_id: free_port() for node_id, role in every if "controller" in role}
        for node_id, role in every:
            self.add(node_id, role)

    def add(self, node_id: int, role: str = BROKER) -> ClusterNode:
        """Adds a node and formats its directory. Does not start it."""
        directory = self.directory / f"node-{node_id}"
        listeners = []
        port = self.reserved_ports.get(node_id) or free_port()
        if "broker" in role:
            listeners.append(f"PLAINTEXT://127.0.0.1:{port}")
        if "controller" in role:
            port = port if "broker" in role else self.controller_ports[node_id]
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller_ports[node_id]}")
        voters = ",".join(f"{voter}@127.0.0.1:{port}" for voter, port in self.controller_ports.items())
        properties = {
            "process.roles": role,
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": ",".join(str(directory / name) for name in self.log_dirs),
            "group.initial.rebalance.delay.ms": "0",
            **self.overrides,
        }
        node = self.node_class(directory, node_id, properties)
        node.host, node.port = "127.0.0.1", port
        self.nodes[node_id] = node
        self._format(node)
        return node

    def _format(self, node: ClusterNode) -> None:
        from odradek.server.config.broker_config import BrokerConfig
        from odradek.server.controller.formatting import format_directories

        format_directories(BrokerConfig(node.properties), CLUSTER_ID, ignore_formatted=True)

    def __enter__(self) -> Cluster:
        try:
            self.start_all()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def start_all(self) -> None:
        start_all(self.nodes.values())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            with contextlib.suppress(ProcessLookupError, AssertionError):
                node.go_on()
            node.kill()

    # ---- state of the cluster

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values() if node.is_broker)

    def reserve(self, node_ids: Iterable[int]) -> str:
        """Reserves ports for brokers that are added later. Returns their addresses."""
        self.reserved_ports |= {node_id: free_port() for node_id in node_ids}
        return ",".join(f"127.0.0.1:{port}" for port in self.reserved_ports.values())

    def running(self) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.is_running and node.is_broker]

    def ask_any(self, request: Message, version: int) -> Any:
        """Returns the response of the first broker that answers; None when none does."""
        for node in self.running():
            with contextlib.suppress(OSError, EOFError):
                return node.ask(request, version)
        return None

    def until(self, found: Callable[[], Any], what: str | Callable[[], str], deadline_s: float | None = None) -> Any:
        """Returns the first true result of `found`. After the deadline, raises AssertionError with `what`, which may be
        computed then, and the end of every log.
        """
        deadline_s = self.deadline_s if deadline_s is None else deadline_s
        deadline = time.monotonic() + deadline_s
        while True:
            began = time.monotonic()
            with contextlib.suppress(OSError, EOFError):
                if value := found():
                    return value
            if time.monotonic() > deadline:
                words = "\n".join(f"--- {node.node_id}\n{node.last_words(25)}" for node in self.nodes.values())
                raise AssertionError(f"{what if isinstance(what, str) else what()}: not in {deadline_s} s\n{words}")
            pause_after_probe(began)

    def controller(self, node: ClusterNode | None = None) -> int:
        """Returns the id of the active controller, as a broker reports it; -1 when it reports none."""
        request = DescribeQuorumRequest(
            [DescribeQuorumTopicRequest("__cluster_metadata", [DescribeQuorumPartitionRequest(0)])]
        )
        response = node.ask(request, 2) if node is not None else self.ask_any(request, 2)
        if response is None or response.error_code or not response.topics:
            return -1
        partition = response.topics[0].partitions[0]
        return -1 if partition.error_code else int(partition.leader_id)

    def partitions(self, topic: str, node: ClusterNode | None = None) -> dict[int, Any]:
        """Returns the partitions in a Metadata response, by index; none when the broker does not have the topic."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response = node.ask(request, 9) if node is not None else self.ask_any(request, 9)
        if response is None or response.topics[0].error_code:
            return {}
        return {partition.partition_index: partition for partition in response.topics[0].partitions}

    def create_topic(self, name: str, assignments: Iterable[Iterable[int]] = (), **fields: Any) -> None:
        """Creates a topic. Retries while the cluster cannot decide yet, as clients do."""
        made = [CreatableReplicaAssignment(index, list(replicas)) for index, replicas in enumerate(assignments)]
        counts = {"num_partitions": -1, "replication_factor": -1}
        topic = CreatableTopic(name=name, assignments=made, **(counts | fields))
        later = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_REPLICATION_FACTOR)

        def created() -> bool:
            response = self.ask_any(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
            if response is None or response.topics[0].error_code in later:
                return False
            (result,) = response.topics
            assert result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), result
            return True

        self.until(created, f"{name} is created")
        self.until(lambda: all(self.partitions(name, node) for node in self.running()), f"{name} is known")
