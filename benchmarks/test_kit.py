"""Measures the test kit: `python -m benchmarks.test_kit`. Prints a row for each figure with its target.

The cost per test is that of the fixture `odradek_broker`: the reset of a broker after a test with a topic. Times are
medians; CPU times stand beside them, since a busy machine or disk changes only wall-clock times.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import odradek
import psutil

ROUNDS = 15
MOST_BROKERS = 50


class Row:
    """Wall-clock and CPU times of one step, in ms."""

    def __init__(self, what: str, target_ms: float) -> None:
        self.what = what
        self.target_ms = target_ms
        self.wall_ms: list[float] = []
        self.cpu_ms: list[float] = []

    def take(self, work: Callable[[], object]) -> None:
        began, began_cpu = time.perf_counter(), time.process_time()
        work()
        self.wall_ms.append((time.perf_counter() - began) * 1000)
        self.cpu_ms.append((time.process_time() - began_cpu) * 1000)

    def __str__(self) -> str:
        wall = statistics.median(self.wall_ms)
        verdict = "met" if wall < self.target_ms else "missed"
        cpu = statistics.median(self.cpu_ms)
        return f"| {self.what} | {wall:.1f} ms | {cpu:.1f} ms | {self.target_ms:g} ms | {verdict} |"


def use(broker: odradek.Broker) -> None:
    """Leaves the state of a typical test: a topic with records."""
    broker.topic("orders").send(b"order 1", b"order 2")


def fixture_row() -> Row:
    row = Row("`odradek_broker`, per test", 10)
    with odradek.Broker() as broker:
        for _ in range(ROUNDS):
            use(broker)
            row.take(broker.reset)
    return row


def start_row() -> Row:
    row = Row("start of `odradek.Broker`", 200)
    for _ in range(ROUNDS):
        broker = odradek.Broker()
        row.take(broker.start)
        broker.stop()
    return row


def cluster_row() -> Row:
    row = Row("start of `odradek.Cluster(brokers=3)`", 300)
    for _ in range(ROUNDS):
        cluster = odradek.Cluster(brokers=3)
        row.take(cluster.start)
        cluster.stop()
    return row


def snapshot_rows() -> list[Row]:
    save, restore = Row("`broker.save`, 1,000 records", 50), Row("`broker.restore`, 1,000 records", 50)
    with tempfile.TemporaryDirectory() as folder, odradek.Broker() as broker:
        broker.topic("orders").send(*(b"order %d" % number for number in range(1000)))
        path = Path(folder, "saved")
        for _ in range(ROUNDS):
            save.take(lambda: broker.save(path))
            restore.take(lambda: broker.restore(path))
            assert len(broker.topic("orders").records()) == 1000
    return [save, restore]


def memory_of_brokers() -> str:
    process = psutil.Process()
    running = [odradek.Broker()]
    running[0].start()
    before = process.memory_info().rss
    for _ in range(MOST_BROKERS - 1):
        running.append(odradek.Broker())
        running[-1].start()
    each_mb = (process.memory_info().rss - before) / (MOST_BROKERS - 1) / 1e6
    total_mb = process.memory_info().rss / 1e6
    for broker in running:
        broker.stop()
    return f"{MOST_BROKERS} brokers in one process take {total_mb:.0f} MB, {each_mb:.1f} MB for each after the first."


def main() -> None:
    print("| what | median | processor | target | |\n|---|---|---|---|---|")
    for row in (start_row(), fixture_row(), cluster_row(), *snapshot_rows()):
        print(row, flush=True)
    print()
    print(memory_of_brokers())


if __name__ == "__main__":
    main()
