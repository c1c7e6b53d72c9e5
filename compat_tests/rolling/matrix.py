"""One run of the matrix: three nodes that are stopped by SIGTERM and started again in turn, under the load of all clients.

For each client: the records that its group has not processed, or processed twice in transactions; its calls of more than
5 s, and those that never returned; the longest silence, in which no member of the group handled a record.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from compat_tests.cluster.mixed import MixedCluster
from compat_tests.java.program import JVM_FLAGS, java_command
from compat_tests.recipes import make_replicated_topic
from tests.server.harness.cluster_process import COMBINED

from .workers import BEGINS, ENDS, SEEN

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
TOPIC, PARTITIONS, NODES = "records", 6, 3
RECORDS_PER_S = 40
#: A call of a client that takes longer is slow; one that takes longer than this before the end is hung.
SLOW_S, HUNG_S = 5.0, 30.0
#: A group has ended when it processed everything, or processed nothing for so long.
_NO_PROGRESS_S = 60.0
_START_S, _STOP_S, _POLL_S = 90.0, 15.0, 0.2
_GROUP_RESOURCE = 32

#: Kind of worker -> how many run. Those of JAVA run in one process.
WORKERS = {
    "classic": 2,
    "consumer": 2,
    "share": 2,
    "aiokafka": 2,
    "kafka-python": 2,
    "copier": 4,
    "kafka-python-copier": 1,
    "offsets": 2,
    "rare": 2,
    "admin": 1,
}
JAVA = ("java-classic", "java-consumer", "java-share")
KINDS = (*WORKERS, *JAVA)
COPIERS = ("copier", "kafka-python-copier")
WITHOUT_RECORDS = ("offsets", "rare", "admin")
#: Transactions so rare that librdkafka #5511 strikes with every broker: their hung calls are counted, not asserted.
MAY_HANG = ("rare",)
_COORDINATED = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "6",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.num.partitions": "6",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}


@dataclass
class Row:
    """The result of one kind of clients. `silence_s`: of its group, or the longest call of clients without records."""

    kind: str
    produced: int = 0
    missing: int = 0
    doubled: int = 0
    slow_calls: int = 0
    hung_calls: int = 0
    silence_s: float = 0.0
    ends: int = 0

    @property
    def is_good(self) -> bool:
        return not self.missing and not self.doubled and (not self.hung_calls or self.kind in MAY_HANG)


@dataclass
class Result:
    target: str
    stops_s: list[float] = field(default_factory=list)
    rows: dict[str, Row] = field(default_factory=dict)


class Worker:
    """A client's process, which is started again when it ends by itself."""

    def __init__(self, kinds: tuple[str, ...], command: list[str], file: Path) -> None:
        self.kinds = kinds
        self.file = file
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self.ends = -1

    def look(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self.ends += 1
            with self.file.open("a") as notes, self.file.with_suffix(".log").open("a") as log:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=notes, stderr=log, cwd=_ROOT
                )

    def end(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def await_end(self, deadline: float) -> None:
        if self._process is not None:
            try:
                self._process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def notes(self) -> list[list[Any]]:
        """Returns the whole lines so far."""
        if not self.file.exists():
            return []
        lines = self.file.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("[")]


class Feeder:
    """Produces numbers at an even rate, from `start` to `stop`."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self.acknowledged: set[int] = set()
        self.failed: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        number, began = 0, time.monotonic()
        while not self._is_over.wait(1 / RECORDS_PER_S):
            while number < (time.monotonic() - began) * RECORDS_PER_S:
                value = str(number).encode()
                self._producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0)
        self._producer.flush(60)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.add(int(message.value()))
        else:
            self.failed.append(str(error))

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


class Run:
    """A run against `target`, "odradek" or "apache". `report` gets a line for each step."""

    def __init__(
        self, target: str, kinds: Iterable[str], folder: Path, report: Callable[[str], None], **overrides: str
    ) -> None:
        self._kinds = tuple(kinds)
        self._report = report
        self._folder = folder
        self._cluster = MixedCluster(folder / "nodes", [COMBINED] * NODES, **{**_COORDINATED, **overrides})
        for node_id in self._cluster.nodes:
            self._cluster.node(node_id).is_apache = target == "apache"
        self.result = Result(target)
        self._workers: list[Worker] = []

    def execute(self, rolls: int, interval_s: float) -> Result:
        """Rolls the nodes in turn; a roll begins `interval_s` after the one before, or later if that one takes longer."""
        with self._cluster:
            self._prepare()
            feeder = Feeder(self._cluster.bootstrap)
            feeder.start()
            try:
                self._await_all_handle()
                for number in range(rolls):
                    began = time.monotonic()
                    self._roll(number % NODES + 1)
                    self._look_until(began + interval_s)
                feeder.stop()
                assert not feeder.failed, feeder.failed[:3]
                self._await_processed(feeder.acknowledged)
            finally:
                feeder.stop()
                ended_at = time.monotonic()
                self._end_workers()
            self._judge(feeder.acknowledged, ended_at)
        return self.result

    # ---- steps

    def _prepare(self) -> None:
        bootstrap = self._cluster.bootstrap
        for topic in (TOPIC, *(self._group(kind) for kind in COPIERS if kind in self._kinds)):
            make_replicated_topic(bootstrap, topic, PARTITIONS)
        for kind in ("share", "java-share"):
            if kind in self._kinds:
                self._configure_share_group(self._group(kind))
        for kind in self._kinds:
            for number in range(WORKERS.get(kind, 0)):
                self._add((kind,), [*_python(kind), bootstrap, TOPIC, self._group(kind), f"{kind}-{number}"])
        if set(JAVA) & set(self._kinds):
            words, flags = (bootstrap, TOPIC, "group"), (*JVM_FLAGS, "-Xmx128m")
            self._add(JAVA, java_command(_HERE / "GroupMembers.java", *words, jvm=flags))

    def _add(self, kinds: tuple[str, ...], command: list[str]) -> None:
        worker = Worker(kinds, command, self._folder / f"{kinds[0]}-{len(self._workers)}.jsonl")
        self._workers.append(worker)
        worker.look()

    @staticmethod
    def _group(kind: str) -> str:
        return f"group-{kind}"

    def _configure_share_group(self, group: str) -> None:
        resource = AlterConfigsResource(
            _GROUP_RESOURCE, group, [AlterableConfig("share.auto.offset.reset", 0, "earliest")]
        )
        request = IncrementalAlterConfigsRequest([resource], validate_only=False)

        def configured() -> bool:
            response = self._cluster.ask_any(request, 1)
            return response is not None and not response.responses[0].error_code

        self._cluster.until(configured, "the share group has its configuration")

    def _await_all_handle(self) -> None:
        deadline = time.monotonic() + _START_S
        while missing := [kind for kind in self._with_records() if not self._values(kind)]:
            assert time.monotonic() < deadline, f"{missing} handle nothing; see {self._folder}"
            self._look_until(time.monotonic() + 1)

    def _roll(self, node_id: int) -> None:
        node = self._cluster.nodes[node_id]
        began = time.monotonic()
        node.stop()
        self.result.stops_s.append(stopped_s := time.monotonic() - began)
        node.start()
        self._cluster.until(self._is_whole, "all replicas are in sync")
        self._report(
            f"node {node_id}: stopped in {stopped_s:.2f} s, whole again after {time.monotonic() - began:.1f} s"
        )

    def _is_whole(self) -> bool:
        found = [self._cluster.partitions(topic) for topic in (TOPIC, "__consumer_offsets")]
        return all(topic and all(len(one.isr_nodes) == NODES for one in topic.values()) for topic in found)

    def _look_until(self, deadline: float) -> None:
        while True:
            for worker in self._workers:
                worker.look()
            if time.monotonic() >= deadline:
                return
            time.sleep(_POLL_S)

    def _await_processed(self, produced: set[int]) -> None:
        """Waits until all groups have everything, or none has anything new for a while."""
        counts: list[int] = []
        deadline = time.monotonic() + _NO_PROGRESS_S
        while time.monotonic() < deadline:
            found = [len(produced - self._values(kind)) for kind in self._with_records()]
            if not any(found):
                return
            if found != counts:
                counts, deadline = found, time.monotonic() + _NO_PROGRESS_S
            self._look_until(time.monotonic() + 2)

    def _end_workers(self) -> None:
        for worker in self._workers:
            worker.end()
        deadline = time.monotonic() + _STOP_S
        for worker in self._workers:
            worker.await_end(deadline)

    # ---- results

    def _with_records(self) -> list[str]:
        return [kind for kind in self._kinds if kind not in WITHOUT_RECORDS]

    def _notes(self, kind: str) -> list[list[list[Any]]]:
        """Returns the notes of the kind's workers, a list for each."""
        every = [worker.notes() for worker in self._workers if kind in worker.kinds]
        return [[note for note in notes if kind not in JAVA or note[3] == kind] for notes in every]

    def _values(self, kind: str) -> set[int]:
        return {note[2] for notes in self._notes(kind) for note in notes if note[0] == SEEN}

    def _judge(self, produced: set[int], ended_at: float) -> None:
        for kind in self._kinds:
            notes = self._notes(kind)
            row = self.result.rows[kind] = Row(kind, len(produced))
            row.ends = sum(worker.ends for worker in self._workers if kind in worker.kinds)
            longest_s = _count_calls(row, notes, ended_at)
            if kind in WITHOUT_RECORDS:
                row.produced, row.silence_s = 0, longest_s
                continue
            times = sorted(note[1] for some in notes for note in some if note[0] == SEEN)
            row.silence_s = max((after - before for before, after in pairwise(times)), default=0.0)
            copies = Counter(self._values(kind))
            if kind in COPIERS:
                copies = committed_values(self._cluster.bootstrap, self._group(kind))
                row.doubled = sum(count - 1 for count in copies.values())
            row.missing = len(produced - copies.keys())


def _python(kind: str) -> list[str]:
    return [sys.executable, "-m", "compat_tests.rolling.workers", kind]


def _count_calls(row: Row, every: list[list[list[Any]]], ended_at: float) -> float:
    """Counts slow and hung calls. Returns the length of the longest."""
    longest_s = 0.0
    for notes in every:
        open_since: dict[str, float] = defaultdict(float)
        for note in notes:
            if note[0] == BEGINS:
                open_since[note[2]] = note[1]
            elif note[0] == ENDS:
                took_s = note[1] - open_since.pop(note[2])
                row.slow_calls += took_s > SLOW_S
                longest_s = max(longest_s, took_s)
        for began in open_since.values():
            row.slow_calls += ended_at - began > SLOW_S
            row.hung_calls += ended_at - began > HUNG_S
            longest_s = max(longest_s, ended_at - began)
    return longest_s


def committed_values(bootstrap: str, topic: str) -> Counter[int]:
    """Returns how often each value is in a topic, as read_committed."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-of-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    reader.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: Counter[int] = Counter()
    at_end: set[int] = set()
    deadline = time.monotonic() + _NO_PROGRESS_S
    while len(at_end) < PARTITIONS:
        assert time.monotonic() < deadline, f"{topic} is not read to its end; a transaction may be open"
        message = reader.poll(1.0)
        if message is not None and message.error() is None:
            found[int(message.value())] += 1
        elif message is not None:
            at_end.add(message.partition())
    reader.close()
    return found


def table(results: list[Result]) -> str:
    """Returns the rows as text, with the targets side by side."""
    lines = ["client".ljust(22) + "".join(f"{result.target:>40}" for result in results)]
    lines.append(" " * 22 + "      unprocessed  slow  hung   silence s" * len(results))
    for kind in results[0].rows:
        cells = []
        for result in results:
            row = result.rows[kind]
            missing = f"{row.missing}+{row.doubled} of {row.produced}" if row.produced else "-"
            cells.append(f"{missing:>18}{row.slow_calls:>6}{row.hung_calls:>6}{row.silence_s:>10.1f}")
        lines.append(kind.ljust(22) + "".join(cells))
    for result in results:
        stops = ", ".join(f"{one:.2f}" for one in result.stops_s)
        lines.append(f"{result.target}: stops took {stops} s")
    return "\n".join(lines)
