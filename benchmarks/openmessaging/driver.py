"""Settings of a driver of the OpenMessaging Benchmark: those of topics, producers and consumers of Apache Kafka's client."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .workload import WorkloadError, read_yaml

_BOOTSTRAP = "bootstrap.servers"


@dataclass(frozen=True)
class Driver:
    """`producer` and `consumer` include the common settings, without the address of a broker."""

    name: str
    replication_factor: int
    topic: dict[str, str]
    producer: dict[str, str]
    consumer: dict[str, str]

    @classmethod
    def read(cls, file: Path) -> Driver:
        """Reads a file. Raises WorkloadError."""
        found = read_yaml(file)
        common = properties(str(found.get("commonConfig") or ""), file)
        common.pop(_BOOTSTRAP, None)
        replicas = found.get("replicationFactor")
        if not isinstance(replicas, int):
            raise WorkloadError(f"{file}: replicationFactor must be a number")
        parts = (properties(str(found.get(f"{part}Config") or ""), file) for part in ("topic", "producer", "consumer"))
        topic, producer, consumer = parts
        return cls(file.stem, replicas, topic, common | producer, common | consumer)


def properties(text: str, file: Path) -> dict[str, str]:
    """Reads lines of `key=value`, without escapes."""
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith(("#", "!"))]
    if wrong := [key for key, equals, _ in pairs if not equals]:
        raise WorkloadError(f"{file}: {wrong[0]!r} is not key=value")
    return {key.strip(): value.strip() for key, _, value in pairs}
