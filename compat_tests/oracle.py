"""Apache Kafka itself, as a process: tests must hold for it before Odradek must pass them."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from .broker_process import BrokerProcess, free_port
from .java.fetch import ORACLE
from .java.program import java_command

_JAVA = Path(__file__).resolve().parent / "java"
_STARTER = _JAVA / "OracleStart.java"
_NODE_STARTER = _JAVA / "ClusterNodeStart.java"
_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
#: Enough for a node of a cluster with some hundred partitions.
NODE_HEAP = "256m"
#: For a short start and little memory; a benchmark passes its own flags.
QUICK_JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def node_command(cluster_id: str, properties: Path) -> list[str]:
    """Returns the command that starts a node of a cluster; its properties name the voters. Formats its storage if needed."""
    return java_command(_NODE_STARTER, cluster_id, str(properties), jvm=_node_jvm())


def formatted_node_command(properties: Path, version: str = ORACLE, heap: str = NODE_HEAP) -> list[str]:
    """Returns the command that starts a node of a cluster on formatted directories, whichever program formatted them."""
    return java_command("kafka.Kafka", str(properties), jvm=_node_jvm(heap), version=version)


def _node_jvm(heap: str = NODE_HEAP) -> tuple[str, ...]:
    return (f"-Xmx{heap}", *(flag for flag in QUICK_JVM if not flag.startswith("-Xmx")))


class ApacheKafka(BrokerProcess):
    """A combined KRaft broker and controller of the release `version`.

    `properties` override those of a single node: replication factors of one and no initial rebalance delay.
    """

    name = "Apache Kafka"

    def __init__(
        self,
        directory: Path,
        properties: dict[str, str] | None = None,
        *,
        version: str = ORACLE,
        jvm: tuple[str, ...] = QUICK_JVM,
        start_deadline_s: float = 120,
        starter: Path = _STARTER,
    ) -> None:
        super().__init__(directory, properties, start_deadline_s=start_deadline_s)
        self.starter = starter
        self.version = version
        self.jvm = jvm
        #: Replaced for a directory that another broker has formatted.
        self.cluster_id = _CLUSTER_ID
        self.port = free_port()
        self.controller_port = free_port()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The data is temporary, and a clean stop with many topics takes long.
        self.kill()

    def command(self) -> list[str]:
        file = self.directory / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self._all_properties().items()))
        return java_command(self.starter, self.cluster_id, str(file), jvm=self.jvm, version=self.version)

    def _all_properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"{self.host}:{self.controller_port}",
            "log.dirs": str(self.data_dir),
            **SINGLE_NODE,
            **self.properties,
        }


#: Properties of a single node, of either broker.
SINGLE_NODE = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}
