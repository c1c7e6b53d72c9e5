"""The rows of the comparison: a workload, a driver, and the divisor of the rate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .driver import Driver
from .workload import Workload

HERE = Path(__file__).parent
#: 512 GB become 512 MB: the backlog is read from the page cache, as it is upstream with enough memory.
BACKLOG_DIVISOR = 1024
_LATENCY, _THROUGHPUT, _SYNC, _EXACTLY_ONCE = "kafka-latency", "kafka-throughput", "kafka-sync", "kafka-exactly-once"
_LARGEST = "max-rate-1-topic-"


@dataclass(frozen=True)
class Row:
    """`divisor` is that of the rate; a workload at the highest rate has none."""

    workload: Workload
    driver: Driver
    divisor: float

    @property
    def name(self) -> str:
        return f"{self.workload.name}, {self.driver.name}, {self._pace}"

    @property
    def _pace(self) -> str:
        if self.workload.is_rated:
            return f"{self.workload.producer_rate:,.6g}/s (1/{self.divisor:g})"
        return "as consumers keep up" if not self.workload.producer_rate else "at most"


#: Workload, driver and divisor. Both brokers hold these rates on two cores with three replicas: Apache Kafka appends some
#: 1,700 single batches a second there (benchmarks.md), and each poll of a consumer appends a commit, too.
ROWS = (
    ("1-topic-1-partition-1kb", _LATENCY, 50),
    ("1-topic-16-partitions-1kb", _LATENCY, 50),
    ("1-topic-1-partition-1kb", _EXACTLY_ONCE, 50),
    ("1-topic-1-partition-1kb", _SYNC, 100),
    ("1-topic-100-partitions-1kb-4p-4c-200k", _THROUGHPUT, 200),
    ("1-topic-100-partitions-1kb-4p-4c-200k-backlog", _THROUGHPUT, 200),
    ("100-topic-1kb-4p-4c-500k", _THROUGHPUT, 1000),
    *((f"{_LARGEST}1-partition-1p-1c-{size}", _THROUGHPUT, 1) for size in ("100b", "1kb", "64kb")),
    *((f"{_LARGEST}10-partitions-10p-10c-{size}", _THROUGHPUT, 1) for size in ("100b", "1kb", "64kb")),
    *((f"{_LARGEST}16-partitions-{size}", _THROUGHPUT, 1) for size in ("100b", "1kb")),
)


def row(workload: Path, driver: Path, divisor: float) -> Row:
    """Reads the files of a row. Raises WorkloadError."""
    return Row(Workload.read(workload).divided(divisor, BACKLOG_DIVISOR), Driver.read(driver), divisor)
