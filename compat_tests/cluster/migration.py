"""Moves a cluster from Apache Kafka to Odradek and back under load, and measures each step:

    python -m compat_tests.cluster.migration --way new-ids --guests --streams
    python -m compat_tests.cluster.migration --voters dynamic --secured --partitions 2000 --minutes 60

Producers and groups of three clients run all along, a transactional copier too, and on request Spark, Kafka Streams, and
the guests of guests.py. Each line has the longest time without an acknowledgement during a step. `--roll` restarts Apache
Kafka with itself, for comparison. The end compares all records, by independent counts, with what was acknowledged.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from compat_tests import access
from compat_tests.access import granted
from compat_tests.exactly_once.copier import SETTINGS_VARIABLE
from compat_tests.faults.replicas import Comparison, compare_all
from compat_tests.java.fetch import ORACLE
from tests.server.harness.cluster_process import BROKER, COMBINED, CONTROLLER

from . import guests as guest_loads
from . import ways
from .guests import Counting, Guest, ShareReader, committed_values
from .kafka_python_refresh import outliving_resets
from .mixed import DynamicMixedCluster, MixedCluster
from .orders import TOPIC, KafkaPythonSender, LibrdkafkaSender, Sender
from .readers import Billing, ConsumerProtocolReader, KafkaPythonReader, Reader
from .scenario import Scenario
from .secured import SecuredDynamicMixedCluster, SecuredMixedCluster, access_of
from .spark_client import SparkQuery

COPIES = "copies"
WAYS = ("in-place", "new-ids", "controllers", "kills")
_COPIER = Path(__file__).resolve().parents[1] / "exactly_once" / "copier.py"
_OVERRIDES = {
    "offsets_topic_num_partitions": "5",
    "transaction_state_log_num_partitions": "5",
    "min_insync_replicas": "2",
}
#: Sessions of a broker that is killed end soon.
_IMPATIENT = {
    "broker_session_timeout_ms": "3000",
    "broker_heartbeat_interval_ms": "500",
    "controller_quorum_fetch_timeout_ms": "6000",
}
_SAMPLE_S = 0.01
#: A busy machine and thousands of partitions take their time; what a step costs clients is measured.
_NODE_DEADLINE_S = 600
_DEADLINE_S = 300
#: With the default, a node with 2,000 partitions ends by OutOfMemoryError.
_HEAP_OF_THOUSANDS = "1g"
#: A copier that was fenced waits for the session of its predecessor, and has a backlog then.
_COPYING_S = 900
_PARTITIONS_PER_TOPIC = 100
_REPLICAS = 3


def _environment() -> dict[str, str]:
    """Returns the environment of the copier: its client logs in."""
    return {**os.environ, SETTINGS_VARIABLE: json.dumps(access.librdkafka())}


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

    def __init__(self, cluster: MixedCluster, log: Path) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._log = log
        self._is_over = threading.Event()
        self.starts = 0

    def run(self) -> None:
        while not self._is_over.is_set():
            self.starts += 1
            words = [self._cluster.bootstrap, TOPIC, COPIES, "copying", "consumer", "copier", "1"]
            with self._log.open("a") as log:
                process = subprocess.Popen(
                    [sys.executable, str(_COPIER), *words], stdout=log, stderr=log, env=_environment()
                )
            while process.poll() is None and not self._is_over.wait(0.1):
                pass
            process.kill()
            process.wait()

    def end(self) -> None:
        self._is_over.set()
        self.join()


def cluster_of(options: argparse.Namespace, directory: Path) -> MixedCluster:
    is_dynamic = options.voters == "dynamic"
    kind = DynamicMixedCluster if is_dynamic else MixedCluster
    if options.secured:
        kind = SecuredDynamicMixedCluster if is_dynamic else SecuredMixedCluster
    overrides = {
        **_OVERRIDES,
        **(_IMPATIENT if options.way == "kills" else {}),
        **(guest_loads.OVERRIDES if options.guests else {}),
    }
    if options.guests:
        kind = type("", (kind,), {"log_dirs": guest_loads.LOG_DIRS})
    made = kind(
        directory, [BROKER] * 3 + [CONTROLLER] * 3 if options.way == "controllers" else [COMBINED] * 3, **overrides
    )
    for node_id, node in made.nodes.items():
        made.node(node_id).is_apache, made.node(node_id).version = True, options.release
        # A controlled shutdown moves the leaders of thousands of partitions first.
        node.stop_deadline_s = node.start_deadline_s = _NODE_DEADLINE_S
        if options.partitions:
            made.node(node_id).heap = _HEAP_OF_THOUSANDS
    made.deadline_s = _DEADLINE_S
    if options.way in ("controllers", "kills"):
        made.node(2).is_apache = False
    return made


def steps(plays: Scenario, options: argparse.Namespace) -> Iterator[ways.Step]:
    match options.way:
        case "new-ids":
            return ways.by_new_ids(plays)
        case "controllers":
            return ways.controllers(plays)
        case "kills":
            return ways.kills(plays, options.seed, options.kills)
    upgrades = options.voters == "upgraded"
    return ways.in_place(plays, roll=options.roll, rounds=options.rounds, upgrades=upgrades)


def execute(options: argparse.Namespace, directory: Path) -> None:
    cluster = cluster_of(options, directory / "cluster")
    with granted(access_of(cluster)), cluster, contextlib.ExitStack() as stack:
        resets = stack.enter_context(outliving_resets())
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        cluster.create_topic(COPIES, num_partitions=3, replication_factor=3)
        for number in range(options.partitions // _PARTITIONS_PER_TOPIC):
            cluster.create_topic(f"many-{number}", num_partitions=_PARTITIONS_PER_TOPIC, replication_factor=3)
        senders: list[Sender] = [
            LibrdkafkaSender("librdkafka", cluster.bootstrap),
            KafkaPythonSender("kafka-python", cluster.bootstrap),
        ]
        readers: list[Reader] = [
            Billing(cluster.bootstrap),
            ConsumerProtocolReader(cluster.bootstrap),
            KafkaPythonReader("kafka-python", cluster.bootstrap),
        ]
        if options.guests:
            readers.append(ShareReader(cluster.bootstrap))
            assert isinstance(readers[-1], ShareReader)
            readers[-1].configure(cluster)
        plays = Scenario(cluster, senders, readers, has_apache=True)
        if options.spark:
            plays.query = SparkQuery(addresses_of(cluster, options), directory / "spark")
            stack.callback(plays.query.kill)
        plays.begin()
        for client in (*senders, *readers):
            stack.callback(client.end)  # type: ignore[attr-defined]
        plays.goes_on()
        copying = Copying(cluster, directory / "copier.log")
        copying.start()
        stack.callback(copying.end)
        guests = guests_of(options, cluster, directory)
        for guest in guests:
            stack.callback(guest.close)
            guest.begin()
        move(plays, options, guests)
        _end(plays)
        print(f"kafka-python outlived {len(resets)} resets before TLS (see its FINDINGS)", flush=True)
        for guest in guests:
            print(guest.end(), flush=True)
        _end_copying(plays, copying)
        for guest in guests:
            guest.close()
        _compare_replicas(cluster)


def addresses_of(cluster: MixedCluster, options: argparse.Namespace) -> str:
    """Returns the addresses for Spark, which creates clients all along: those of brokers that join later too."""
    if options.way != "new-ids":
        return cluster.bootstrap
    return f"{cluster.bootstrap},{cluster.reserve(new for _, new, _ in ways.ALL_CHANGES)}"


def guests_of(options: argparse.Namespace, cluster: MixedCluster, directory: Path) -> list[Guest]:
    made: list[Guest] = []
    if options.streams:
        made.append(Counting(cluster, "classic", directory / "classic"))
    if options.guests:
        made.append(Counting(cluster, "streams", directory / "streams"))
        made += [make() for make in guest_loads.settings_of(cluster)]
    return made


def move(plays: Scenario, options: argparse.Namespace, guests: list[Guest]) -> None:
    deadline = time.monotonic() + options.minutes * 60
    for step in steps(plays, options):
        if time.monotonic() > deadline:
            print("no time is left for further steps", flush=True)
            return
        for guest in guests:
            guest.before_step()
        silences = [Silence(sender) for sender in plays.senders]
        for silence in silences:
            silence.start()
        began = time.monotonic()
        title = step()
        plays.is_whole()
        took = time.monotonic() - began
        plays.goes_on()
        measured = ", ".join(f"{s.end():.2f} s {c.client}" for s, c in zip(silences, plays.senders, strict=True))
        print(f"{title}: in sync after {took:.1f} s; longest silence {measured}", flush=True)
        for guest in guests:
            guest.after_step()
    if plays.query is not None:
        plays.query_goes_on()


def _end(plays: Scenario) -> None:
    plays.ends()
    acknowledged = {order for sender in plays.senders for order in sender.acknowledged} - plays.excused.lost
    there = sum(map(len, plays.found.values()))
    print(f"{len(acknowledged)} orders acknowledged, {there} in the topic, each once in order")
    if plays.excused:
        print(f"of librdkafka with a leader of Apache Kafka: {plays.excused}")
    for reader in plays.readers:
        if isinstance(reader, ShareReader):
            print(reader.counted(acknowledged, plays.counts))
    if plays.query is not None:
        batches = plays.query.batches
        kept = plays.query.end()
        assert {index: [row[1:] for row in rows] for index, rows in kept.items()} == plays.found, "Spark has other rows"
        print(f"Spark: {sum(map(len, kept.values()))} rows, one for each record, from {batches} batches", flush=True)


def _end_copying(plays: Scenario, copying: Copying) -> None:
    cluster, there = plays.cluster, plays.counts.total()
    cluster.until(
        lambda: committed_values(cluster.bootstrap, COPIES, 3).total() >= there,
        "all orders are copied",
        _COPYING_S,
    )
    counts = committed_values(cluster.bootstrap, COPIES, 3)
    assert counts == plays.counts, "orders are not copied exactly once"
    print(f"{len(counts)} orders copied in transactions, each once ({copying.starts} starts of the copier)")


def _compare_replicas(cluster: MixedCluster) -> None:
    data = [directory for node in cluster.nodes.values() if node.is_broker for directory in node.log_dirs]
    found: list[Comparison] = []

    def are_equal() -> bool:
        found[:] = [compare_all(data, _REPLICAS)]
        return not found[0].differing

    try:
        cluster.until(are_equal, "the replicas hold the same bytes")
    except AssertionError as failure:
        raise AssertionError("\n".join(found[0].differing)) from failure
    print(f"the replicas hold the same bytes: {found[0]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.cluster.migration", description=__doc__)
    parser.add_argument("--way", choices=WAYS, default="in-place", help="the steps, see ways.py")
    parser.add_argument(
        "--voters", choices=("static", "dynamic", "upgraded"), default="static", help="upgraded: while nodes are mixed"
    )
    parser.add_argument("--secured", action="store_true", help="TLS between nodes, SCRAM within TLS for clients")
    parser.add_argument("--partitions", type=int, default=0, help="further partitions, with three replicas each")
    parser.add_argument(
        "--guests", action="store_true", help="share and streams groups and more, see guests.py; secured"
    )
    parser.add_argument("--spark", action="store_true", help="a streaming query of Spark runs through")
    parser.add_argument("--streams", action="store_true", help="a Kafka Streams application (classic) runs through")
    parser.add_argument("--roll", action="store_true", help="restart Apache Kafka with itself instead")
    parser.add_argument("--rounds", type=int, default=1, help="how often the nodes change in place, there and back")
    parser.add_argument("--release", default=ORACLE, help="the release of Apache Kafka; its jars are in .tools")
    parser.add_argument("--minutes", type=float, default=30, help="begin no further step after this time")
    parser.add_argument("--seed", type=int, default=1, help="draws the programs after kills")
    parser.add_argument("--kills", type=int, default=ways.KILLS)
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="run in this folder, and leave it there when the run fails"
    )
    options = parser.parse_args()
    options.secured |= options.guests
    if options.way not in ("in-place", "kills"):
        options.voters = "dynamic"
    folder = Path(tempfile.mkdtemp(prefix="migration-")) if options.keep is None else options.keep
    folder.mkdir(parents=True, exist_ok=True)
    has_failed = True
    try:
        execute(options, folder)
        has_failed = False
    finally:
        if options.keep is None or not has_failed:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
