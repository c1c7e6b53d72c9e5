"""The two brokers of a comparison, each started as its own project starts it, and their costs.

Apache Kafka runs with the flags of its own start script; both run with their default configuration on a single node.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from compat_tests.broker_process import BrokerProcess
from compat_tests.java.fetch import ORACLE, classpath, java
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka

#: The flags of kafka-server-start.sh and kafka-run-class.sh.
KAFKA_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_TICKS = os.sysconf("SC_CLK_TCK")

#: Properties of both brokers, which favour neither. Deleted segments are removed at once, so that a row does not pay for
#: the page cache that earlier rows filled.
PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
    # Members of a share group join and get records at once: a row measures the time after that.
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.assignment.interval.ms": "0",
    # A killed member of the new protocol expires after this instead of 45 s, which would dominate the row.
    "group.consumer.min.session.timeout.ms": "10000",
    "group.consumer.session.timeout.ms": "10000",
    "log.segment.delete.delay.ms": "0",
}


class MeasuredKafka(ApacheKafka):
    """Apache Kafka, formatted beforehand and started by its main class, so that a start includes nothing else."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, PROPERTIES, jvm=KAFKA_JVM)

    def command(self) -> list[str]:
        super().command()  # writes server.properties
        file = str(self.directory / "server.properties")
        run = [java(), *self.jvm, "-cp", classpath(self.version)]
        if not self.data_dir.exists():
            form = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", file, "--standalone"]
            subprocess.run([*run, *form], check=True, capture_output=True)
        return [*run, "kafka.Kafka", file]


def apache(directory: Path) -> BrokerProcess:
    return MeasuredKafka(directory)


class MeasuredOdradek(OdradekProcess):
    """Odradek as a user starts it: Python may keep its compiled modules, which is its default."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, PROPERTIES)

    def environment(self) -> dict[str, str]:
        kept = super().environment() or dict(os.environ)
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        return kept


def odradek(directory: Path) -> MeasuredOdradek:
    return MeasuredOdradek(directory)


APACHE_NAME = f"Apache Kafka {ORACLE}"
ODRADEK_NAME = "Odradek"


@dataclass(frozen=True)
class Cost:
    """The resources that a process has used until now: CPU in seconds, user and system."""

    cpu_s: float

    @classmethod
    def of(cls, pid: int) -> Cost:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return cls((int(fields[11]) + int(fields[12])) / _TICKS)


def memory_mb(pid: int) -> float:
    """Returns the resident memory in MB (10^6 bytes)."""
    return _status_kb(pid, "VmRSS") * 1024 / 1e6


def peak_memory_mb(pid: int) -> float:
    return _status_kb(pid, "VmHWM") * 1024 / 1e6


def _status_kb(pid: int, key: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise LookupError(key)
