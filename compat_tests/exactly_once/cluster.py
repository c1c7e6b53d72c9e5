"""Three brokers in place of the checker's one: a kill ends one of them, and a start starts it again."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from compat_tests.broker_process import free_port, start_all
from compat_tests.odradek_process import OdradekProcess

NODES = (1, 2, 3)
_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
#: Every partition is on all three brokers, and two acknowledge a record: if one dies, another has the record.
_REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
}


class Node(OdradekProcess):
    """`odradek start server.properties`, formatted beforehand."""

    def command(self) -> list[str]:
        file = self.directory / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        if not self.starts:
            form = [sys.executable, "-m", "odradek", "format", str(file), "--cluster-id", _CLUSTER_ID]
            subprocess.run([*form, "--ignore-formatted"], check=True, capture_output=True)
        return [*self.python, "-m", "odradek", "start", str(file)]


class ThreeBrokers:
    """Three brokers with the interface that the checker uses: an address, a kill and a start."""

    def __init__(
        self, directory: Path, properties: dict[str, str], seed: int = 0, *, start_deadline_s: float = 120
    ) -> None:
        self._rng = random.Random(seed)
        ports = {node: (free_port(), free_port()) for node in NODES}
        voters = ",".join(f"{node}@127.0.0.1:{controller}" for node, (_, controller) in ports.items())
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port, _ in ports.values())
        self.nodes = {
            node: Node(
                directory / f"node-{node}",
                {
                    **properties,
                    **_REPLICATED,
                    "process.roles": "broker,controller",
                    "node.id": str(node),
                    "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                    "controller.listener.names": "CONTROLLER",
                    "controller.quorum.voters": voters,
                    "log.dirs": str(directory / f"node-{node}" / "data"),
                },
                start_deadline_s=start_deadline_s,
            )
            for node, (port, controller) in ports.items()
        }

    def kill(self, node: int | None = None) -> None:
        """Kills a node with -9, by default a random one."""
        self.nodes[self._rng.choice(NODES) if node is None else node].kill()

    def start(self) -> None:
        """Starts the nodes that do not run. A quorum needs a majority to serve, so all start before the wait for any."""
        start_all(self.nodes.values())

    def __enter__(self) -> ThreeBrokers:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            node.kill()
