"""Moves three nodes from Apache Kafka to Odradek and back under load, and measures each step:

    python -m compat_tests.cluster.migration --voters dynamic --secured --partitions 2000 --minutes 30

Producers and groups of three clients run all along, a transactional copier too, and on request Spark and Kafka Streams. Each
line has the longest time without an acknowledgement during a step. `--roll` restarts Apache Kafka with itself, for
comparison. The end compares all records, by independent counts, with what was acknowledged.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from compat_tests import access
from compat_tests.access import granted
from compat_tests.faults.replicas import differing
from compat_tests.java.fetch import ORACLE
from compat_tests.streams.word_count import WordCount, Words, exactly, lines_of
from tests.server.harness.cluster_process import COMBINED

from .mixed import DynamicMixedCluster, MixedCluster
from .orders import TOPIC, KafkaPythonSender, LibrdkafkaSender, Sender
from .readers import Billing, KafkaPythonReader, Reader
from .scenario import Scenario
from .secured import SecuredMixedCluster, access_of
from .spark_client import SparkQuery

COPIES, TEXTS, COUNTS = "copies", "lines", "counts"
_COPIER = Path(__file__).resolve().parents[1] / "exactly_once" / "copier.py"
_OVERRIDES = {
    "offsets_topic_num_partitions": "5",
    "transaction_state_log_num_partitions": "5",
    "min_insync_replicas": "2",
}
_SAMPLE_S = 0.01
_NODE_DEADLINE_S = 180
_PARTITIONS_PER_TOPIC = 100


class Step(NamedTuple):
    node: int
    to_apache: bool

    def __str__(self) -> str:
        return f"node {self.node} becomes {'Apache Kafka' if self.to_apache else 'Odradek'}"


class Silence(threading.Thread):
    """Measures the longest time in which no order of a sender was acknowledged."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(daemon=True)
        self._sender = sender
        self._longest = 0.0
        self._is_over = threading.Event()

    def run(self) -> None:
        count, since = len(self._sender.acknowledged), time.monotonic()
        while not self._is_over.wait(_SAMPLE_S):
            now = time.monotonic()
            self._longest = max(self._longest, now - since)
            if (current := len(self._sender.acknowledged)) != count:
                count, since = current, now

    def end(self) -> float:
        """Returns the longest silence, in seconds."""
        self._is_over.set()
        self.join()
        return self._longest


class Copying(threading.Thread):
    """Keeps the transactional copier running: it ends on failures that it cannot recover from."""

    def __init__(self, bootstrap: str, log: Path) -> None:
        super().__init__(daemon=True)
        self._words = [bootstrap, TOPIC, COPIES, "copying", "consumer", "copier", "1"]
        self._log = log
        self._is_over = threading.Event()
        self.starts = 0

    def run(self) -> None:
        while not self._is_over.is_set():
            self.starts += 1
            with self._log.open("a") as log:
                process = subprocess.Popen([sys.executable, str(_COPIER), *self._words], stdout=log, stderr=log)
            while process.poll() is None and not self._is_over.wait(0.1):
                pass
            process.kill()
            process.wait()

    def end(self) -> None:
        self._is_over.set()
        self.join()


def steps(*, roll: bool) -> Iterator[Step]:
    for to_apache in (True,) if roll else (False, True):
        for node in (1, 2, 3):
            yield Step(node, to_apache)


def cluster_of(options: argparse.Namespace, directory: Path) -> MixedCluster:
    kind = DynamicMixedCluster if options.voters == "dynamic" else MixedCluster
    overrides = dict(_OVERRIDES)
    if options.secured:
        kind = SecuredMixedCluster
    made = kind(directory, [COMBINED] * 3, **overrides)
    for node_id, node in made.nodes.items():
        made.node(node_id).is_apache, made.node(node_id).version = True, options.release
        # A controlled shutdown moves the leaders of thousands of partitions first.
        node.stop_deadline_s = node.start_deadline_s = _NODE_DEADLINE_S
    return made


def execute(options: argparse.Namespace, directory: Path) -> None:
    cluster = cluster_of(options, directory / "cluster")
    with granted(access_of(cluster)), cluster, contextlib.ExitStack() as stack:
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        cluster.create_topic(COPIES, num_partitions=3, replication_factor=3)
        for number in range(options.partitions // _PARTITIONS_PER_TOPIC):
            cluster.create_topic(f"many-{number}", num_partitions=_PARTITIONS_PER_TOPIC, replication_factor=3)
        senders: list[Sender] = [
            LibrdkafkaSender("librdkafka", cluster.bootstrap),
            KafkaPythonSender("kafka-python", cluster.bootstrap),
        ]
        readers: list[Reader] = [Billing(cluster.bootstrap), KafkaPythonReader("kafka-python", cluster.bootstrap)]
        plays = Scenario(cluster, senders, readers)
        if options.spark:
            plays.query = SparkQuery(cluster.bootstrap, directory / "spark")
            stack.callback(plays.query.kill)
        plays.begin()
        for client in (*senders, *readers):
            stack.callback(client.end)
        plays.goes_on()
        copying = None if options.secured else Copying(cluster.bootstrap, directory / "copier.log")
        if copying is not None:
            copying.start()
            stack.callback(copying.end)
        words, streams = _streams(cluster, directory, stack) if options.streams else (None, None)
        move(plays, options, words)
        _end(plays, cluster, copying, directory)
        if words is not None and streams is not None:
            words.read_all()
            assert words.counts == exactly(words.written), "words are not counted exactly once"
            print(f"Kafka Streams: {sum(words.written.values())} words, each counted once", flush=True)
            words.close()


def move(plays: Scenario, options: argparse.Namespace, words: Words | None) -> None:
    cluster = plays.cluster
    assert isinstance(cluster, MixedCluster)
    deadline = time.monotonic() + options.minutes * 60
    for step in steps(roll=options.roll):
        if time.monotonic() > deadline:
            print("no time is left for further steps", flush=True)
            return
        silences = [Silence(sender) for sender in plays.senders]
        for silence in silences:
            silence.start()
        began = time.monotonic()
        cluster.node(step.node).becomes(apache=step.to_apache)
        plays.is_whole()
        took = time.monotonic() - began
        plays.goes_on()
        if words is not None:
            words.write(lines_of(50))
        measured = ", ".join(f"{s.end():.2f} s {c.client}" for s, c in zip(silences, plays.senders, strict=True))
        print(f"{step}: in sync after {took:.1f} s; longest silence {measured}", flush=True)
    if plays.query is not None:
        plays.query_goes_on()


def _streams(cluster: MixedCluster, directory: Path, stack: contextlib.ExitStack) -> tuple[Words, WordCount]:
    for topic in (TEXTS, COUNTS):
        cluster.create_topic(topic, num_partitions=3, replication_factor=3)
    words = Words(cluster.bootstrap, (TEXTS, COUNTS), 3)
    streams = WordCount(cluster.bootstrap, "words", (TEXTS, COUNTS), directory / "streams")
    streams.settings |= {"replication.factor": "3", "processing.guarantee": "exactly_once_v2"}
    streams.start()
    stack.callback(streams.kill)
    words.write(lines_of(50))
    return words, streams


def _end(plays: Scenario, cluster: MixedCluster, copying: Copying | None, directory: Path) -> None:
    plays.ends()
    acknowledged = {order for sender in plays.senders for order in sender.acknowledged}
    print(
        f"{len(acknowledged)} orders acknowledged, {sum(map(len, plays.found.values()))} in the topic, each once in order"
    )
    if copying is not None:
        cluster.until(lambda: len(copied(cluster.bootstrap)) >= len(acknowledged), "all orders are copied", 180)
        counts = copied(cluster.bootstrap)
        assert counts.keys() == acknowledged and set(counts.values()) == {1}, "orders are not copied exactly once"
        print(f"{len(counts)} orders copied in transactions, each once ({copying.starts} starts of the copier)")
    if plays.query is not None:
        rows = sum(map(len, plays.query.end().values()))
        assert rows == len(acknowledged), (rows, len(acknowledged))
        print(f"Spark: {rows} rows, each order once")
    data = [node.data_dir for node in cluster.nodes.values()]
    cluster.until(lambda: list(differing(data, TOPIC, 3)) == [], "the replicas hold the same bytes")
    print("the replicas hold the same bytes", flush=True)


def copied(bootstrap: str) -> Counter[str]:
    """Counts the committed copies of each order."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "copies", "isolation.level": "read_committed"}
    reading = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True, **access.librdkafka()})
    places = [TopicPartition(COPIES, index, 0) for index in range(3)]
    reading.assign(places)
    found: Counter[str] = Counter()
    ended: set[int] = set()
    while len(ended) < len(places):
        for message in reading.consume(1000, 1.0):
            if message.error() is not None:
                ended.add(message.partition())
            else:
                found[message.value().decode()] += 1
    reading.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.cluster.migration", description=__doc__)
    parser.add_argument("--voters", choices=("static", "dynamic"), default="static")
    parser.add_argument(
        "--secured", action="store_true", help="TLS between nodes, SCRAM within TLS for clients; static"
    )
    parser.add_argument("--partitions", type=int, default=0, help="further partitions, with three replicas each")
    parser.add_argument("--spark", action="store_true", help="a streaming query of Spark runs through")
    parser.add_argument("--streams", action="store_true", help="a Kafka Streams application runs through")
    parser.add_argument("--roll", action="store_true", help="restart Apache Kafka with itself instead")
    parser.add_argument("--release", default=ORACLE, help="the release of Apache Kafka; its jars are in .tools")
    parser.add_argument("--minutes", type=float, default=30, help="begin no further step after this time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="migration-") as folder:
        execute(options, Path(folder))


if __name__ == "__main__":
    main()
