"""The nodes of a cluster under faults: broker and controller in one process each, ours or Apache Kafka's.

A node of a mixed cluster draws at each start whether Odradek or Apache Kafka runs on its directory.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import TracebackType

from compat_tests.broker_process import BrokerProcess, start_all
from compat_tests.oracle import formatted_node_command, node_command
from compat_tests.secured_nodes import SecuredNodes

from .network import Network

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_BROKER_PORT, _CONTROLLER_PORT, _INTERNAL_PORT = 9092, 9093, 9094
#: Long, since a busy machine is no anomaly.
_START_S = 300
#: Settings other than Kafka's defaults; timeouts are short, since rounds are.
_PROPERTIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "auto.create.topics.enable": "false",
}


class ClusterNode(BrokerProcess):
    """A node in its namespace, with a small disk of its own."""

    def __init__(
        self,
        kind: str,
        network: Network,
        node: int,
        directory: Path,
        disk: str = "256m",
        secured: SecuredNodes | None = None,
        seed: int = 0,
        properties: dict[str, str] | None = None,
    ) -> None:
        super().__init__(directory, properties, start_deadline_s=_START_S)
        self.name = f"{kind} {node}"
        self.kind = kind
        self.node = node
        self.network = network
        self.host, self.port = network.address(node), _BROKER_PORT
        self.is_paused = False
        #: Replaced where two clusters share a network.
        self.cluster_id = CLUSTER_ID
        self._secured = secured
        self._rng = Random(f"{seed} {node}")
        #: Variables for the process, added to this process's own.
        self.variables: dict[str, str] = {}
        #: The program of each start of a mixed cluster's node.
        self.programs: list[str] = []
        self.data_dir.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk}", "tmpfs", str(self.data_dir)], check=True)

    def command(self) -> list[str]:
        file = self.directory / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self._all_properties().items()))
        within = self.network.within(self.node)
        if self.kind == "apache":
            return [*within, *node_command(self.cluster_id, file)]
        odradek = f"{shlex.quote(sys.executable)} -m odradek"
        formats = f"{odradek} format {shlex.quote(str(file))} --cluster-id {self.cluster_id} --ignore-formatted"
        if self._secured is not None:
            formats += f" --add-scram {shlex.quote(self._secured.scram)}"
        starts = f"{odradek} start {shlex.quote(str(file))}"
        if self.kind == "mixed":
            self.programs.append(self._rng.choice(("odradek", "apache")))
            starts = shlex.join(formatted_node_command(file)) if self.programs[-1] == "apache" else starts
        # With exec the broker has the shell's pid.
        return [*within, "sh", "-c", f"{formats} && exec {starts}"]

    def environment(self) -> dict[str, str] | None:
        return {**os.environ, **self.variables} if self.variables else None

    def _all_properties(self) -> dict[str, str]:
        voters = ",".join(f"{n}@{self.network.address(n)}:{_CONTROLLER_PORT}" for n in self.network.nodes)
        made = {
            **_PROPERTIES,
            "process.roles": "broker,controller",
            "node.id": str(self.node),
            "listeners": f"PLAINTEXT://{self.host}:{_BROKER_PORT},CONTROLLER://{self.host}:{_CONTROLLER_PORT}",
            "advertised.listeners": f"PLAINTEXT://{self.host}:{_BROKER_PORT}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(self.log_dir),
            **self.properties,
        }
        return made if self._secured is None else self._secured.secured(made, self.host, _INTERNAL_PORT)

    @property
    def log_dir(self) -> Path:
        return self.data_dir / "kafka"

    # ---- faults

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self.is_paused = True

    def go_on(self) -> None:
        if self.is_paused and self.is_running:
            os.kill(self.pid, signal.SIGCONT)
        self.is_paused = False

    def fill_disk(self) -> None:
        with self._filler.open("ab", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(1 << 16))

    def free_disk(self) -> None:
        self._filler.unlink(missing_ok=True)

    @property
    def _filler(self) -> Path:
        return self.data_dir / "filler"

    def discard(self) -> None:
        self.go_on()
        self.kill()
        subprocess.run(["umount", "--lazy", str(self.data_dir)], capture_output=True)


class FaultyCluster:
    """The nodes and their network, started together and removed at the end."""

    def __init__(
        self,
        kind: str,
        count: int,
        directory: Path,
        secured: SecuredNodes | None = None,
        seed: int = 0,
        properties: dict[str, str] | None = None,
    ) -> None:
        self._secured, self._seed, self._properties = secured, seed, properties
        #: Variables for the processes of the nodes, added to this process's own.
        self.environment: Mapping[str, str] | None = None
        self.network = Network(count)
        self.nodes: dict[int, ClusterNode] = {}
        self._kind, self._directory = kind, directory

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def __enter__(self) -> FaultyCluster:
        self.network.__enter__()
        try:
            for number in self.network.nodes:
                place = self._directory / f"node-{number}"
                self.nodes[number] = ClusterNode(
                    self._kind,
                    self.network,
                    number,
                    place,
                    secured=self._secured,
                    seed=self._seed,
                    properties=self._properties,
                )
                self.nodes[number].variables = dict(self.environment or {})
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
            node.discard()
        self.network.__exit__(kind, error, trace)
