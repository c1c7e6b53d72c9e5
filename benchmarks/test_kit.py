"""Measures the test kit: `python -m benchmarks.test_kit`. Prints a row for each figure with its target.

The cost per test is that of the fixture `odradek_broker`: the reset of a broker after a test with a topic. Times are
medians; CPU times stand beside them, since a busy machine or disk changes only wall-clock times. Where Go is installed, a
second table compares kfake, franz-go's fake cluster in the test's process (benchmarks/kfake), in the same run.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import odradek
import psutil
from odradek.protocol.messages.metadata import MetadataRequest

from compat_tests.downloads import download
from compat_tests.wire import WireClient

ROUNDS = 15
MOST_BROKERS = 50
_KFAKE = Path(__file__).with_name("kfake")
_KFAKE_PROGRAM = _KFAKE.parents[1] / ".tools" / "kfake" / "kfake"
_DEADLINE_S = 120


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


def memory_of_brokers() -> tuple[float, float]:
    """Returns the memory of a process with 50 brokers in MB, and that of each broker after the first."""
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
    return total_mb, each_mb


def build_kfake() -> None:
    _KFAKE_PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    build = ["go", "build", "-buildvcs=false", "-o", str(_KFAKE_PROGRAM), "."]
    download(build, cwd=_KFAKE, timeout=_DEADLINE_S).check_returncode()


def run_kfake(*arguments: str) -> dict[str, Any]:
    """Runs the Go program. Returns lists of ms, and the memory of its process with 50 clusters in bytes."""
    done = subprocess.run([_KFAKE_PROGRAM, *arguments], stdout=subprocess.PIPE, check=True, timeout=_DEADLINE_S)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def start_to_metadata_ms(new: Callable[[], odradek.Broker | odradek.Cluster]) -> list[float]:
    """Returns durations from a start to the first response to a metadata request."""
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with new() as started, WireClient(started.bootstrap_servers.split(",")[0]) as client:
            client.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), 9)
            found.append((time.perf_counter() - began) * 1000)
    return found


def beside_kfake(per_test: Row, memory_mb: float) -> None:
    """Prints the costs of both. The same Go client does the round trip; Odradek runs in another process than it."""
    build_kfake()
    fake = run_kfake()
    with odradek.Broker() as broker:
        round_trip = run_kfake(broker.bootstrap_servers)["round_trip"]
    pairs = (
        ("start of a broker and the first metadata", start_to_metadata_ms(odradek.Broker), fake["start"]),
        (
            "start of three brokers and the first metadata",
            start_to_metadata_ms(lambda: odradek.Cluster(brokers=3)),
            fake["start_of_three"],
        ),
        ("an empty broker for the next test: reset; close and a new cluster", per_test.wall_ms, fake["renewal"]),
        ("topic, new client, a record produced and consumed", round_trip, fake["round_trip"]),
    )
    print("| what | Odradek | kfake |\n|---|---|---|")
    for what, ours, theirs in pairs:
        print(f"| {what} | {statistics.median(ours):.2f} ms | {statistics.median(theirs):.2f} ms |")
    print(f"| memory of a process with {MOST_BROKERS} brokers | {memory_mb:.0f} MB | {fake['memory'] / 1e6:.0f} MB |")


def main() -> None:
    print("| what | median | processor | target | |\n|---|---|---|---|---|")
    start, per_test = start_row(), fixture_row()
    for row in (start, per_test, cluster_row(), *snapshot_rows()):
        print(row, flush=True)
    total_mb, each_mb = memory_of_brokers()
    print(
        f"\n{MOST_BROKERS} brokers in one process take {total_mb:.0f} MB, {each_mb:.1f} MB for each after the first.\n"
    )
    if shutil.which("go"):
        beside_kfake(per_test, total_mb)
    else:
        print("Go is not installed: kfake was not measured.")


if __name__ == "__main__":
    main()
