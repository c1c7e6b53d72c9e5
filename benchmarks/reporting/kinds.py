"""The figures of a row of the comparison, and the project's bound for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..loads import Load


@dataclass(frozen=True)
class Kind:
    """A kind of figure: its unit, and the target for the ratio Odradek / Apache Kafka."""

    name: str
    unit: str
    target: float
    higher: bool

    def holds(self, ratio: float) -> bool:
        return ratio >= self.target if self.higher else ratio <= self.target


THROUGHPUT = Kind("throughput", "MB/s", 1.0, higher=True)
#: For loads with a negligible number of bytes.
RATE = Kind("rate", "1/s", 1.0, higher=True)
CPU_PER_GB = Kind("broker CPU", "s/GB", 0.6, higher=False)
CPU_PER_REQUEST = Kind("broker CPU", "us/request", 0.5, higher=False)
LATENCY_P50 = Kind("latency p50", "ms", 0.8, higher=False)
LATENCY_P99 = Kind("latency p99", "ms", 0.8, higher=False)
START = Kind("exec to first response", "s", 0.1, higher=False)
MEMORY = Kind("resident memory", "MB", 0.2, higher=False)


@dataclass(frozen=True)
class Row:
    """One load: `run(bootstrap, topic)`. `feeds` is a load that fills the topic first and is not measured."""

    name: str
    client: str
    run: Callable[[str, str], Load]
    kinds: tuple[Kind, ...]
    feeds: Callable[[str, str], Load] | None = None
