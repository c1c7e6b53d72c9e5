"""Measures starts and stops of a single node with many partitions: `python -m benchmarks.growth_starts [--partitions N ...]
[--runs N] [--data DIR] [--checkout CHECKOUT]`. With CHECKOUT the broker is that of another state of the repository, with an
environment of its own, as for `benchmarks.pairs`.

Each partition has some records. Measured are, for each size:

- the start after kill -9 of a broker that every partition was written to;
- the start after a clean stop;
- the start after kill -9 of a broker that nothing was written to since its own start after a clean stop;
- the stop of a broker that every partition was written to since its start, and of one that none was written to.

The columns are the time until the first partition responds to ListOffsets, the time
until all do with the right offset, the CPU until then, and the memory. CPU is the steadiest of them on a busy machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.broker_process import POLL_S
from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient

from .brokers import Cost, memory_mb

PARTITIONS_PER_TOPIC = 1000
#: A probe names one in so many partitions of a topic.
PROBED_STEP = 50
#: Between requests to a broker that opens its logs.
ASK_S = 0.1
DEADLINE_S = 600
_CREATE, _PRODUCE, _LIST_OFFSETS = 7, 9, 7
_LATEST = -1


class Start(NamedTuple):
    first_s: float
    all_s: float
    cpu_s: float
    memory_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=[2000, 10_000, 40_000])
    parser.add_argument("--runs", type=int, default=3, help="starts of each kind (default: 3)")
    parser.add_argument("--data", metavar="DIR", help="for the brokers' data (default: that for temporary files)")
    parser.add_argument("--checkout", type=Path, metavar="CHECKOUT", help="another state of the repository")
    options = parser.parse_args()
    # Without the working directory on the path: it has the compiled kernel of this checkout.
    python = sys.executable if options.checkout is None else str(options.checkout / ".venv/bin/python")
    print("| partitions | start | first served, s | all served, s | CPU, s | memory, MB |\n|---|---|---|---|---|---|")
    for partitions in options.partitions:
        with tempfile.TemporaryDirectory(prefix="growth-starts-", dir=options.data) as folder:
            measure(GrownOdradek(Path(folder), python), partitions, options.runs)


def measure(broker: GrownOdradek, partitions: int, runs: int) -> None:
    topics = Topics(partitions)
    written: list[Start] = []
    clean: list[Start] = []
    idle: list[Start] = []
    changed_stops_s: list[float] = []
    idle_stops_s: list[float] = []
    with broker:
        topics.create(broker.bootstrap)
        for _ in range(runs):
            topics.write(broker.bootstrap)
            broker.kill()
            written.append(start(broker, topics))
        show(partitions, "after kill -9, all written to", written)
        for _ in range(runs):
            topics.write(broker.bootstrap)
            changed_stops_s.append(stop_s(broker))
            clean.append(start(broker, topics))
            idle_stops_s.append(stop_s(broker))
            start(broker, topics)
        show(partitions, "clean", clean)
        for _ in range(runs):
            broker.restart()
            broker.kill()
            idle.append(start(broker, topics))
        show(partitions, "after kill -9, none written to", idle)
    for what, stops_s in (("all written to", changed_stops_s), ("none written to", idle_stops_s)):
        print(f"stop of {partitions:,}, {what}, s: {', '.join(f'{one:.1f}' for one in sorted(stops_s))}", flush=True)


class GrownOdradek(OdradekProcess):
    """A broker with many partitions. Python may keep its compiled modules, which is its default."""

    def __init__(self, folder: Path, python: str) -> None:
        properties = {"log.retention.check.interval.ms": "3600000"}
        super().__init__(folder, properties, python=(python, "-P"), start_deadline_s=DEADLINE_S)
        self.stop_deadline_s = DEADLINE_S

    def environment(self) -> dict[str, str]:
        kept = super().environment()
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        return kept


def stop_s(broker: OdradekProcess) -> float:
    """Returns the seconds from SIGTERM until the process has ended."""
    began = time.perf_counter()
    assert broker.stop() == 0, broker.last_words()
    return time.perf_counter() - began


def start(broker: OdradekProcess, topics: Topics) -> Start:
    began = time.perf_counter()
    broker.begin()
    first_s = until(broker, topics.any_served, began)
    all_s = until(broker, topics.all_served, began)
    cpu_s, memory = Cost.of(broker.pid).cpu_s, memory_mb(broker.pid)
    broker.await_serving()
    return Start(first_s, all_s, cpu_s, memory)


def until(broker: OdradekProcess, is_reached: Callable[[WireClient], bool], began: float) -> float:
    """Returns the seconds since `began` when the condition holds."""
    while time.perf_counter() < began + DEADLINE_S:
        with suppress(OSError), WireClient(broker.bootstrap, timeout=DEADLINE_S) as client:
            while not is_reached(client):
                time.sleep(ASK_S)
            return time.perf_counter() - began
        assert broker.is_running, broker.last_words()
        time.sleep(POLL_S)
    raise TimeoutError(broker.last_words())


class Topics:
    """The topics of a size, whose partitions all have the same number of records."""

    def __init__(self, partitions: int) -> None:
        self._indexes = {
            f"grown-{first // PARTITIONS_PER_TOPIC}": range(min(PARTITIONS_PER_TOPIC, partitions - first))
            for first in range(0, partitions, PARTITIONS_PER_TOPIC)
        }

        #: Records of each partition.
        self._written = 0

    def create(self, bootstrap: str) -> None:
        with WireClient(bootstrap, timeout=DEADLINE_S) as client:
            for name, indexes in self._indexes.items():
                request = CreateTopicsRequest([CreatableTopic(name, len(indexes), 1)], DEADLINE_S * 1000)
                created = client.call(request, _CREATE).topics[0]
                assert created.error_code == 0, created

    def write(self, bootstrap: str) -> None:
        batch = encode_batch([Record(0, time.time_ns() // 10**6, None, bytes(100))])
        with WireClient(bootstrap, timeout=DEADLINE_S) as client:
            for name, indexes in self._indexes.items():
                data = TopicProduceData(name, partition_data=[PartitionProduceData(index, batch) for index in indexes])
                response = client.call(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), _PRODUCE)
                codes = {one.error_code for topic in response.responses for one in topic.partition_responses}
                assert codes == {0}, codes
        self._written += 1

    def any_served(self, client: WireClient) -> bool:
        return any(map(self._is_served, self._partitions(client, step=PROBED_STEP)))

    def all_served(self, client: WireClient) -> bool:
        """Returns whether all partitions respond with the offset after their records. Asks for some of them first: requests
        for all would cost the broker more than its start.
        """
        probes, partitions = self._partitions(client, PROBED_STEP), self._partitions(client)
        return all(map(self._is_served, probes)) and all(map(self._is_served, partitions))

    def _is_served(self, found: Any) -> bool:
        assert found.error_code or found.offset == self._written, f"{found}: a record is missing"
        return not found.error_code

    def _partitions(self, client: WireClient, step: int = 1) -> Iterator[Any]:
        for name, indexes in self._indexes.items():
            yield from self._offsets(client, name, indexes[::step])

    def _offsets(self, client: WireClient, name: str, indexes: range) -> list[Any]:
        asked = ListOffsetsTopic(name, [ListOffsetsPartition(index, -1, _LATEST) for index in indexes])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[asked])
        return list(client.call(request, _LIST_OFFSETS).topics[0].partitions)


def show(partitions: int, what: str, found: list[Start]) -> None:
    columns = [[f"{value:.1f}" for value in column] for column in zip(*(sorted(found)), strict=True)]
    cells = [", ".join(column) for column in columns[:3]] + [f"{found[0].memory_mb:.0f}"]
    print(f"| {partitions:,} | {what} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
