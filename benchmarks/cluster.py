"""Compares three nodes of Odradek with three of Apache Kafka: `python -m benchmarks.cluster [--write docs/specialists]`.

The clusters run one after the other, on the same machine with the same foreign programs. Measured are throughput of
acks=all with three replicas, latency, the time without acknowledgements after a kill -9, the time until a node is back in
the ISR, start and memory.
The figures go into docs/specialists/benchmarks.md as those of `benchmarks.against_kafka` do.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from confluent_kafka import Producer
from rich.console import Console

from . import brokers, loads
from .clusters import MeasuredCluster
from .reporting import kinds, report
from .reporting.kinds import CPU_PER_GB, CPU_PER_REQUEST, LATENCY_P50, LATENCY_P99, THROUGHPUT, Kind
from .reporting.result import Result

UNAVAILABLE = Kind("no acknowledgement for", "ms", 0.1, higher=False)
CATCH_UP = Kind("back in sync after", "s", 1.0, higher=False)
STARTED = Kind("exec to all serving", "s", 0.1, higher=False)
IDLE_S = 5
STEADY_PER_S, STEADY_S = 500, 30
#: Interval of the prober's records, and its longest wait for the recovery from a kill.
PROBE_S = 0.005
RECOVERY_S = 60.0

Note = Callable[[str, str, Kind, float], None]


def main() -> None:
    options = arguments()
    figures: dict[tuple[str, str, Kind], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in (brokers.APACHE_NAME, brokers.ODRADEK_NAME):

        def note(row: str, client: str, kind: Kind, value: float, name: str = name) -> None:
            print(f"{name}: {row} ({client}), {kind.name}: {value:.4g} {kind.unit}", flush=True)
            figures[f"cluster: {row}", client, kind][name].append(value)

        for _ in range(options.rounds):
            with (
                tempfile.TemporaryDirectory(prefix="bench-") as folder,
                MeasuredCluster(name, Path(folder)) as cluster,
            ):
                measure(cluster, options.scale, note)
    found = [
        Result(row, client, kind, *(statistics.median(by[name]) for name in by), len(by[brokers.ODRADEK_NAME]))  # type: ignore[call-arg]
        for (row, client, kind), by in figures.items()
    ]
    report.show(found, Console())
    if options.write:
        report.write(found, options.write)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of each load, as a factor (default: 1)")
    parser.add_argument("--rounds", type=int, default=1, help="clusters of each kind, one after the other (default: 1)")
    parser.add_argument(
        "--write", type=Path, metavar="DIR", help="adds the rows to benchmarks.md there (docs/specialists)"
    )
    return parser.parse_args()


def measure(cluster: MeasuredCluster, scale: float, note: Note) -> None:
    note("start", "exec", STARTED, cluster.start_s)
    time.sleep(IDLE_S)
    note("idle, all three", "-", kinds.MEMORY, cluster.memory_mb())
    measure_produce(cluster, scale, note)
    measure_latency(cluster, scale, note)
    note("under load, all three", "-", kinds.MEMORY, cluster.memory_mb())
    measure_deaths(cluster, note)
    measure_return(cluster, scale, note)


def measure_produce(cluster: MeasuredCluster, scale: float, note: Note) -> None:
    """Runs each load twice; the first run warms up and is not counted."""
    by_java = {"1 KiB": (1024, int(200_000 * scale)), "100 B": (100, int(1_000_000 * scale))}
    for label, (size, records) in by_java.items():
        row = f"produce {label} acks=all, 3 replicas"
        for client in ("Java", "librdkafka"):
            for counts in (False, True):
                topic = f"{client}-{size}-{counts}"
                cluster.create_topic(topic, 3)
                before = cluster.cpu_s()
                if client == "Java":
                    load = loads.java_produce(cluster.bootstrap, topic, records, size, acks="all")
                else:
                    load = loads.rdkafka(cluster.bootstrap, topic, "produce", records, size, acks="all", linger_ms="5")
                if counts:
                    note(row, client, THROUGHPUT, load.megabytes_per_s)
                    note(row, client, CPU_PER_GB, (cluster.cpu_s() - before) / (load.megabytes / 1000))
    records = int(30_000 * scale)
    for counts in (False, True):
        cluster.create_topic(f"unbatched-{counts}", 3)
        before = cluster.cpu_s()
        words = {"acks": "all", "batch_num_messages": "1", "linger_ms": "0"}
        load = loads.rdkafka(cluster.bootstrap, f"unbatched-{counts}", "produce", records, 100, **words)
        if counts:
            note("produce 100 B unbatched acks=all, 3 replicas", "librdkafka", THROUGHPUT, load.megabytes_per_s)
            cpu_us = (cluster.cpu_s() - before) / load.records * 1e6
            note("produce 100 B unbatched acks=all, 3 replicas", "librdkafka", CPU_PER_REQUEST, cpu_us)


def measure_latency(cluster: MeasuredCluster, scale: float, note: Note) -> None:
    cluster.create_topic("latency")
    loads.rdkafka(cluster.bootstrap, "latency", "tail", 200, 100, acks="all")
    load = loads.rdkafka(cluster.bootstrap, "latency", "tail", int(3_000 * scale), 100, acks="all")
    note("end to end, acks=all", "librdkafka", LATENCY_P50, load.latency_ms["p50"])
    note("end to end, acks=all", "librdkafka", LATENCY_P99, load.latency_ms["p99"])
    records = int(STEADY_PER_S * STEADY_S * scale)
    load = loads.rdkafka(cluster.bootstrap, "latency", "paced", records, 100, acks="all", rate=str(STEADY_PER_S))
    row = f"end to end at {STEADY_PER_S} records a second, acks=all"
    note(row, "librdkafka", LATENCY_P50, load.latency_ms["p50"])
    note(row, "librdkafka", LATENCY_P99, load.latency_ms["p99"])


def measure_deaths(cluster: MeasuredCluster, note: Note) -> None:
    """Measures the death of a leader that is not the controller, then of the controller, which leads the partition."""
    for row, is_controller in (("kill -9 of a partition's leader", False), ("kill -9 of the controller", True)):
        victim, topic = partition_led_by(cluster, is_controller)
        with Prober(cluster.bootstrap, topic) as prober:
            prober.await_acknowledged(200)
            killed_at = time.perf_counter()
            cluster.nodes[victim].kill()
            prober.await_acknowledged(200)
        note(row, "librdkafka", UNAVAILABLE, prober.longest_gap_ms(killed_at))
        cluster.nodes[victim].start()
        cluster.await_in_sync(topic)


def partition_led_by(cluster: MeasuredCluster, is_controller: bool) -> tuple[int, str]:
    for number in range(50):
        topic = f"deaths-{is_controller}-{number}"
        cluster.create_topic(topic)
        leader = cluster.leader_of(topic)
        if (leader == cluster.controller()) is is_controller:
            return leader, topic
    raise LookupError("no topic got the leader that is looked for")


def measure_return(cluster: MeasuredCluster, scale: float, note: Note) -> None:
    """Measures the catch-up of a node that was down while half a gigabyte was written."""
    cluster.create_topic("away", 3)
    away = next(node_id for node_id in cluster.nodes if node_id != cluster.controller())
    cluster.nodes[away].kill()
    loads.rdkafka(cluster.bootstrap, "away", "produce", int(500_000 * scale), 1024, acks="all", linger_ms="5")
    began = time.perf_counter()
    cluster.nodes[away].start()
    cluster.await_in_sync("away")
    note("a node that was away", "-", CATCH_UP, time.perf_counter() - began)


class Prober:
    """Sends a record every few milliseconds, and keeps the time of each acknowledgement."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._acknowledged: list[float] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "log_level": 0,
            }
        )

    def _run(self) -> None:
        while not self._stopped.wait(PROBE_S):
            self._producer.produce(self._topic, b"probe", on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush(RECOVERY_S)

    def _delivered(self, error: object, message: object) -> None:
        assert error is None, error
        self._acknowledged.append(time.perf_counter())

    def await_acknowledged(self, more: int) -> None:
        wanted, deadline = len(self._acknowledged) + more, time.monotonic() + RECOVERY_S
        while len(self._acknowledged) < wanted:
            assert time.monotonic() < deadline, "no acknowledgement"
            time.sleep(PROBE_S)

    def longest_gap_ms(self, since: float) -> float:
        """Returns the longest time without an acknowledgement that ends after `since`."""
        pairs = zip(self._acknowledged, self._acknowledged[1:], strict=False)
        return max(after - before for before, after in pairs if after > since) * 1000

    def __enter__(self) -> Prober:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()


if __name__ == "__main__":
    main()
