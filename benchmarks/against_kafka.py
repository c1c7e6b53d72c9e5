"""Compares Odradek with Apache Kafka on this machine in one run: `python -m benchmarks.against_kafka`.

Both brokers are up. Each row drives one broker and then the other with the same foreign program, in several rounds. The
result is the ratio of the medians: absolute times on a shared machine mean little. A warm-up round is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path

from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.progress import Progress

from compat_tests.broker_process import BrokerProcess

from . import brokers, free_memory, idle_connections, rows
from .awake import cores_awake
from .loads import Load
from .reporting import kinds, report
from .reporting.kinds import Kind, Row
from .reporting.result import Result

STARTS = 5
#: The first rows that `--only` may select.
STARTS_AND_IDLE = "start, idle connections"
IDLE_S = 5

#: (row, client, kind) -> broker -> the figure of each round
Figures = dict[tuple[str, str, Kind], dict[str, list[float]]]


def main() -> None:
    options = arguments()
    figures: Figures = defaultdict(lambda: defaultdict(list))
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            if options.only in STARTS_AND_IDLE:
                measure_starts(Path(folder), figures)
            with cores_awake() if options.awake else nullcontext():
                measure_loads(Path(folder), options, figures)
    finally:
        # After an interruption: the rows that both brokers have.
        found = [result(key, by_broker) for key, by_broker in figures.items() if len(by_broker) == 2]
        report.show(found, Console())
        if options.write and found:
            report.write(found, options.write)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of each load, as a factor (default: 1)")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds of each row (default: 3)")
    parser.add_argument("--only", default="", help="rows whose name or client holds this text")
    parser.add_argument("--awake", action="store_true", help="no core sleeps meanwhile (awake.py); the rows say so")
    parser.add_argument("--write", type=Path, metavar="DIR", help="writes benchmarks.md and its charts there")
    return parser.parse_args()


def result(key: tuple[str, str, Kind], by_broker: dict[str, list[float]]) -> Result:
    row, client, kind = key
    ours, theirs = by_broker[brokers.ODRADEK_NAME], by_broker[brokers.APACHE_NAME]
    return Result(row, client, kind, statistics.median(theirs), statistics.median(ours), len(ours))


def measure_starts(folder: Path, figures: Figures) -> None:
    """Measures the time from exec to a first response, on a formatted, empty directory; then the memory of a broker that is
    idle, and of a broker with idle connections.
    """
    idle_connections.allow(idle_connections.CONNECTIONS)
    for name, make in ((brokers.APACHE_NAME, brokers.apache), (brokers.ODRADEK_NAME, brokers.odradek)):
        broker = make(folder / f"start-{name.split()[0]}")
        broker.start()
        broker.stop()
        for _ in range(STARTS):
            began = time.perf_counter()
            broker.start()
            assert broker._serves()
            figures["start", "exec", kinds.START][name].append(time.perf_counter() - began)
            if len(figures["start", "exec", kinds.START][name]) == STARTS:
                time.sleep(IDLE_S)
                figures["idle", "-", kinds.MEMORY][name].append(brokers.memory_mb(broker.pid))
                held = idle_connections.memory_with(broker, idle_connections.CONNECTIONS)
                figures[f"{idle_connections.CONNECTIONS:,} idle connections", "-", kinds.MEMORY][name].append(held)
            broker.stop()


def measure_loads(folder: Path, options: argparse.Namespace, figures: Figures) -> None:
    suffix = ", cores awake" if options.awake else ""
    chosen = [row for row in rows.all_rows(options.scale) if options.only in f"{row.name} {row.client}"]
    pair = {
        brokers.APACHE_NAME: brokers.apache(folder / "apache"),
        brokers.ODRADEK_NAME: brokers.odradek(folder / "odradek"),
    }
    with pair[brokers.APACHE_NAME], pair[brokers.ODRADEK_NAME], Progress() as progress:
        task = progress.add_task("loads", total=len(chosen) * (options.rounds + 1) * len(pair))
        for number, row in enumerate(chosen):
            progress.update(task, description=f"{row.name} ({row.client})")
            for round_number in range(options.rounds + 1):
                for name, broker in pair.items():
                    found = measure(row, broker, f"bench-{number}-{round_number}")
                    if round_number:
                        for kind, value in found.items():
                            figures[row.name + suffix, row.client, kind][name].append(value)
                    progress.advance(task)
        for name, broker in pair.items() if not options.only else ():
            figures["under load, peak", "-", kinds.MEMORY][name].append(brokers.peak_memory_mb(broker.pid))


def measure(row: Row, broker: BrokerProcess, topic: str) -> dict[Kind, float]:
    if row.feeds is not None:
        row.feeds(broker.bootstrap, topic)
    free_memory.get_back()
    before = brokers.Cost.of(broker.pid)
    load = row.run(broker.bootstrap, topic)
    cpu_s = brokers.Cost.of(broker.pid).cpu_s - before.cpu_s
    forget(broker, topic)
    return {kind: figure(kind, load, cpu_s) for kind in row.kinds}


def forget(broker: BrokerProcess, topic: str) -> None:
    """Deletes the records of a load. With a full page cache, a write costs both brokers several times as much, all in the
    kernel, and the table would measure the kernel. Loads that name their own topics leave little.
    """
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    if topic not in admin.list_topics(timeout=30).topics:
        return
    admin.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + 60
    while any(broker.data_dir.rglob(f"{topic}-*")):
        assert time.monotonic() < deadline, f"{topic} is still there"
        time.sleep(0.05)


def figure(kind: Kind, load: Load, cpu_s: float) -> float:
    if kind is kinds.THROUGHPUT:
        return load.megabytes_per_s
    if kind is kinds.RATE:
        return load.records_per_s
    if kind.unit == kinds.CPU_PER_GB.unit:
        return cpu_s / (load.megabytes / 1000)
    if kind.unit == kinds.CPU_PER_REQUEST.unit:
        return cpu_s / load.records * 1e6
    return load.latency_ms["p50" if kind is kinds.LATENCY_P50 else "p99"]


if __name__ == "__main__":
    main()
