"""Apache Kafka before KRaft, as a process: a broker with a ZooKeeper in the same JVM."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from .broker_process import BrokerProcess, free_port
from .java.fetch import WITH_ZOOKEEPER
from .java.program import java_command
from .oracle import QUICK_JVM

_STARTER = Path(__file__).resolve().parent / "java" / "KafkaWithZooKeeper.java"


class ZooKeeperKafka(BrokerProcess):
    """`properties` override those of a single node: replication factors of one and no initial rebalance delay."""

    name = "Apache Kafka with ZooKeeper"

    def __init__(self, directory: Path, properties: dict[str, str] | None = None) -> None:
        super().__init__(directory, properties, start_deadline_s=120)
        self.port = free_port()
        self.keeper_port = free_port()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()  # the data is temporary

    def command(self) -> list[str]:
        file, keeper = self.directory / "server.properties", self.directory / "zookeeper"
        properties = {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "zookeeper.connect": f"{self.host}:{self.keeper_port}",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "group.initial.rebalance.delay.ms": "0",
            **self.properties,
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        arguments = (str(self.keeper_port), str(keeper), str(file))
        return java_command(_STARTER, *arguments, jvm=QUICK_JVM, version=WITH_ZOOKEEPER)
