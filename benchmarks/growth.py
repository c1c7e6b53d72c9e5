"""Measures the cost of a cluster as it grows: `python -m benchmarks.growth [--apache] [--write FOLDER]`.

Five brokers, ten thousand partitions of three replicas. Measured are the time to create them, the CPU of the five brokers
without clients, the time after a kill -9 until every partition has a leader and until the broker is back in sync, and the
longest wait of an unrelated client meanwhile. Then the size of the metadata of so many partitions on disk and in memory
(`growth_paper.py`, also for more partitions than a machine can have brokers for).

`--apache` measures Apache Kafka on the same machine, with 1 GB of heap for each of the five brokers (with 256 MB they end
before they have 6,000 partitions).
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

from . import growth_paper
from .brokers import APACHE_NAME, ODRADEK_NAME
from .clusters import REPLICAS, MeasuredCluster, MeasuredNode

BROKERS = 5
PARTITIONS_PER_TOPIC = 1000
DEADLINE_S = 300
IDLE_S = 10
PROBE_S = 0.01
SMALL_JVM = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

Note = Callable[[str, float, str], None]


class Figure(NamedTuple):
    what: str
    value: float
    unit: str


def main() -> None:
    options = arguments()
    measured: dict[str, list[Figure]] = {}
    for name in (ODRADEK_NAME, APACHE_NAME) if options.apache else (ODRADEK_NAME,):
        measured[name] = figures = []

        def note(what: str, value: float, unit: str, name: str = name, figures: list[Figure] = figures) -> None:
            print(f"{name}: {what}: {value:.4g} {unit}", flush=True)
            figures.append(Figure(what, value, unit))

        with tempfile.TemporaryDirectory(prefix="growth-", dir=options.directory) as folder:
            grow(GrowingCluster(name, Path(folder), BROKERS, SMALL_JVM), options.partitions, note)
    paper = growth_paper.measure(options.paper)
    print(table(measured), growth_paper.table(paper), sep="\n")
    if options.write:
        write(options.write, table(measured), growth_paper.table(paper))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000, help="in all (default: 10,000)")
    parser.add_argument(
        "--paper",
        type=int,
        nargs="*",
        default=[10_000, 100_000],
        help="sizes of the metadata that is looked at by itself (default: 10,000 and 100,000)",
    )
    parser.add_argument("--apache", action="store_true", help="Apache Kafka too")
    parser.add_argument("--directory", metavar="DIR", help="for the brokers' data (default: that for temporary files)")
    parser.add_argument(
        "--write", type=Path, metavar="DIR", help="writes growth.md there (docs/specialists/benchmarks)"
    )
    return parser.parse_args()


# ---- the cluster


class GrowingCluster(MeasuredCluster):
    def create(self, name: str, partitions: int) -> float:
        """Returns the seconds until the response, and until every broker has every partition in its metadata."""
        request = CreateTopicsRequest([CreatableTopic(name, partitions, REPLICAS)], timeout_ms=DEADLINE_S * 1000)
        began = time.perf_counter()
        with WireClient(self.nodes[1].bootstrap, timeout=DEADLINE_S) as client:
            response = client.call(request, 7).topics[0]
        # The topic exists already if the controller changed meanwhile and the broker retried with the new one.
        assert response.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), response
        for node in self.nodes.values():
            eventually(lambda node=node: len(self.leaders(name, node)) == partitions, what=name, deadline_s=DEADLINE_S)
        return time.perf_counter() - began

    def partitions_of(self, name: str, node: MeasuredNode) -> list:  # type: ignore[type-arg]
        asked = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        with WireClient(node.bootstrap, timeout=DEADLINE_S) as client:
            return list(client.call(asked, 9).topics[0].partitions)

    def leaders(self, name: str, node: MeasuredNode) -> list[int]:
        return [one.leader_id for one in self.partitions_of(name, node)]

    def await_led(self, topics: list[str], without: int, by: MeasuredNode) -> None:
        """Waits until `by` has a leader other than `without` for every partition."""
        for name in topics:
            eventually(
                lambda name=name: not {-1, without} & set(self.leaders(name, by)),
                what=f"{name} is led again",
                deadline_s=DEADLINE_S,
            )

    def await_all_in_sync(self, topics: list[str], by: MeasuredNode) -> None:
        for name in topics:
            eventually(
                lambda name=name: all(len(one.isr_nodes) == REPLICAS for one in self.partitions_of(name, by)),
                what=f"{name} is in sync",
                deadline_s=DEADLINE_S,
            )


def grow(cluster: GrowingCluster, partitions: int, note: Note) -> None:
    with cluster:
        note("start of five brokers", cluster.start_s, "s")
        empty_mb = cluster.memory_mb()
        note("memory of five empty brokers", empty_mb, "MB")
        topics = create_all(cluster, partitions, note)
        cluster.await_all_in_sync(topics, cluster.nodes[1])
        grown_mb = cluster.memory_mb() - empty_mb
        note(f"memory for a replica, with {partitions:,} partitions", grown_mb * 1e6 / partitions / REPLICAS, "bytes")
        measure_idle(cluster, partitions, note)
        controller = cluster.controller()
        other = next(node for node in cluster.nodes if node != controller)
        measure_death(cluster, other, topics, "a broker", note)
        measure_death(cluster, controller, topics, "the broker that is the controller too", note)
        measure_stop(cluster, note)


def create_all(cluster: GrowingCluster, partitions: int, note: Note) -> list[str]:
    """Creates the topics in halves: the second half comes to a cluster with many partitions."""
    topics, half = [f"grown-{number}" for number in range(partitions // PARTITIONS_PER_TOPIC)], partitions // 2
    for first, what in ((0, "the first"), (len(topics) // 2, "the next")):
        before, seconds = cluster.cpu_s(), 0.0
        with Bystander(cluster) as bystander:
            for name in topics[first : first + len(topics) // 2]:
                seconds += cluster.create(name, PARTITIONS_PER_TOPIC)
        note(f"to create {what} {half:,} partitions, a thousand a request", seconds, "s")
        note(f"CPU of all five for a partition of {what} {half:,}", (cluster.cpu_s() - before) / half * 1e6, "us")
        note(f"longest wait of a bystander while {what} {half:,} are created", bystander.longest_ms, "ms")
    return topics


def measure_idle(cluster: GrowingCluster, partitions: int, note: Note) -> None:
    time.sleep(IDLE_S)  # until the work after the creation is done
    before = cluster.cpu_s()
    time.sleep(IDLE_S)
    share = (cluster.cpu_s() - before) / IDLE_S / BROKERS * 100
    note(f"CPU of an idle broker among five, with {partitions:,} partitions", share, "% of a core")


def measure_death(cluster: GrowingCluster, victim: int, topics: list[str], what: str, note: Note) -> None:
    observer = next(node for node_id, node in cluster.nodes.items() if node_id != victim)
    led = sum(cluster.leaders(name, observer).count(victim) for name in topics)
    cluster.nodes[victim].kill()
    with Bystander(cluster, but=victim) as bystander:
        began, before = time.perf_counter(), cluster.cpu_s()
        cluster.await_led(topics, victim, observer)
        seconds, cpu_s = time.perf_counter() - began, cluster.cpu_s() - before
    note(f"kill -9 of {what}, which led {led:,}: until all are led", seconds, "s")
    note(f"longest wait of a bystander after kill -9 of {what}", bystander.longest_ms, "ms")
    note(f"CPU of the others for each leader elected after kill -9 of {what}", cpu_s / max(1, led) * 1e6, "us")
    began = time.perf_counter()
    cluster.nodes[victim].start()
    cluster.await_all_in_sync(topics, observer)
    note(f"{what} comes back: until all are in sync", time.perf_counter() - began, "s")


def measure_stop(cluster: GrowingCluster, note: Note) -> None:
    node = cluster.nodes[max(cluster.nodes)]
    assert node.process is not None
    began = time.perf_counter()
    node.process.terminate()
    assert node.process.wait(DEADLINE_S) in (0, 143), node.last_words()
    node.process = None
    note("SIGTERM of a broker until it has ended", time.perf_counter() - began, "s")


class Bystander:
    """Sends a small request to each broker every few milliseconds, and keeps the longest wait for a response."""

    def __init__(self, cluster: GrowingCluster, but: int = -1) -> None:
        self._nodes = [node for node_id, node in cluster.nodes.items() if node_id != but]
        self._stopped = threading.Event()
        self._waits = [0.0] * len(self._nodes)
        self._threads = [threading.Thread(target=self._run, args=(index,)) for index in range(len(self._nodes))]

    @property
    def longest_ms(self) -> float:
        return max(self._waits) * 1000

    def _run(self, index: int) -> None:
        with WireClient(self._nodes[index].bootstrap, timeout=DEADLINE_S) as client:
            while not self._stopped.wait(PROBE_S):
                began = time.perf_counter()
                client.call(ApiVersionsRequest(), 0)
                self._waits[index] = max(self._waits[index], time.perf_counter() - began)

    def __enter__(self) -> Bystander:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()


# ---- the page


def table(measured: dict[str, list[Figure]]) -> str:
    names = list(measured)
    head = ["", *names, *(["ratio"] if len(names) == 2 else [])]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for number, figure in enumerate(measured[ODRADEK_NAME]):
        values = [measured[name][number].value for name in names]
        cells = [f"{figure.what}, {figure.unit}", *(f"{value:,.4g}" for value in values)]
        cells += [f"{values[0] / values[1]:.2f}"] if len(values) == 2 else []
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write(folder: Path, cluster: str, paper: str) -> None:
    """Writes growth.md; the text of growth-notes.md, if there, goes above the tables."""
    notes = folder / "growth-notes.md"
    parts = [
        "# Cost as it grows",
        notes.read_text().strip() if notes.exists() else "",
        "Written by `python -m benchmarks.growth --write docs/specialists/benchmarks`: five brokers on one machine, "
        "partitions of three replicas.",
        cluster,
        "The metadata by itself, in one process:",
        paper,
    ]
    (folder / "growth.md").write_text("\n\n".join(part for part in parts if part) + "\n")


if __name__ == "__main__":
    main()
