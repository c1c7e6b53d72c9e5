"""A round: a new cluster, a workload, seeded faults, then rest, a final read and the checker's result."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

from compat_tests.access import connect, granted
from compat_tests.recipes import eventually
from compat_tests.secured_nodes import SecuredNodes

from .checker import History, anomalies, has_offset, sent_again
from .consume import everything
from .faults import FAULTS, heal
from .history import read
from .nodes import FaultyCluster
from .replicas import differing, writers

TOPIC = "order-events"
PARTITIONS = 3
#: The duration of a fault, and of the rest between two faults.
LASTS_S = (1.0, 6.0)
REST_S = (2.0, 5.0)
#: The time for clients to end and for the final read, after the last fault is healed.
SETTLE_S = 120


@dataclass(frozen=True)
class Plan:
    """The parameters of a round; the same plan and seed draw the same faults."""

    kind: str = "odradek"
    nodes: int = 3
    faults: int = 3
    producers: int = 2
    names: Sequence[str] = tuple(FAULTS)
    #: Whether faults come in the order of `names`; else each is drawn.
    in_turn: bool = False
    #: Mutual TLS between nodes, SCRAM within TLS for clients.
    secured: bool = False

    def draw(self, rng: Random) -> Iterator[str]:
        every = list(self.names)
        return (every[at % len(every)] if self.in_turn else rng.choice(every) for at in range(self.faults))


@dataclass
class Outcome:
    seed: int
    faults: list[str] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)
    acknowledged: int = 0
    unknown: int = 0
    seen: int = 0
    sent_again: int = 0
    without_offset: int = 0
    #: The programs that each node of a mixed cluster ran, in order.
    programs: dict[int, list[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        reported = f"seed {self.seed}: {self.acknowledged} acknowledged, {self.unknown} unknown, {self.seen} seen"
        if self.sent_again:
            reported += f", {self.sent_again} sent again by their client"
        if self.without_offset:
            reported += f", {self.without_offset} acknowledged without an offset"
        kinds = Counter(one.partition(":")[0] for one in self.anomalies)
        return f"{reported}, {dict(kinds) or 'nothing wrong'}; {'; '.join(self.faults)}{self._starts()}"

    def _starts(self) -> str:
        """Returns how many starts of a mixed cluster were of each program."""
        counts = Counter(program for programs in self.programs.values() for program in programs)
        return "".join(f"; {count} starts of {program}" for program, count in sorted(counts.items()))


def execute(seed: int, plan: Plan, directory: Path, say: Callable[[str], None] = lambda _: None) -> Outcome:
    outcome, rng = Outcome(seed), Random(seed)
    directory.mkdir(parents=True, exist_ok=True)
    nodes = SecuredNodes(directory / "access") if plan.secured else None
    with (
        granted(nodes.access if nodes else None),
        FaultyCluster(plan.kind, plan.nodes, directory, nodes, seed) as cluster,
    ):
        make_topic(cluster)
        clients = Clients(cluster.bootstrap, directory, plan.producers)
        with clients:
            rest(rng, REST_S)
            for name in plan.draw(rng):
                outcome.faults.append(FAULTS[name].begin(cluster, rng))
                say(outcome.faults[-1])
                rest(rng, LASTS_S)
                heal(cluster)
                rest(rng, REST_S)
            clients.finish()
        outcome.programs = {name: node.programs for name, node in cluster.nodes.items() if node.programs}
        judge(outcome, cluster, clients, has_apache=plan.kind != "odradek")
    return outcome


def rest(rng: Random, between: tuple[float, float]) -> None:
    """Sleeps while a fault lasts or the cluster recovers; there is no condition to wait for."""
    time.sleep(rng.uniform(*between))


def make_topic(cluster: FaultyCluster) -> None:
    wanted = CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 3)], timeout_ms=10_000)

    def made() -> bool:
        with connect(next(iter(cluster.nodes.values())).bootstrap) as client:
            return client.call(wanted, 7).topics[0].error_code in (0, 36)

    eventually(made, what=f"{TOPIC} is made", deadline_s=60)


def judge(outcome: Outcome, cluster: FaultyCluster, clients: Clients, *, has_apache: bool) -> None:
    history = History.of(read(clients.files))
    history.trusts_offsets_only = has_apache
    outcome.without_offset = sum(not one.error and not has_offset(one) for one in history.sent)
    final = everything(cluster.bootstrap, TOPIC, PARTITIONS, SETTLE_S)
    outcome.acknowledged, outcome.seen = len(history.acknowledged), len(history.seen)
    outcome.unknown = len(history.sent) - outcome.acknowledged
    places = [node.log_dir for node in cluster.nodes.values()]
    unequal: list[str] = []
    try:
        eventually(lambda: not list(differing(places, TOPIC, PARTITIONS)), what="all replicas are equal")
    except AssertionError:
        unequal = list(differing(places, TOPIC, PARTITIONS))
    again = sent_again(final, writers(places[0], TOPIC, PARTITIONS))
    outcome.sent_again = len(again)
    outcome.anomalies = anomalies(history, final, again) + unequal
    if outcome.anomalies:
        for node in cluster.nodes.values():
            shutil.copytree(node.log_dir, node.directory / "log-dir")
    if not outcome.acknowledged:
        outcome.anomalies.append("idle: nothing was acknowledged, so nothing was tried")


class Clients:
    """The workload: producers, a reader of everything, and two members of one group, each a process."""

    def __init__(self, bootstrap: str, directory: Path, producers: int) -> None:
        self.files: list[Path] = []
        self._directory = directory
        self._running: list[tuple[bool, subprocess.Popen[bytes]]] = []
        self._commands: list[tuple[bool, list[str]]] = []
        for number in range(producers):
            self._add(True, "produce", bootstrap, TOPIC, f"p{number}")
        for kind, name in (("reader", "r"), ("member", "a"), ("member", "b")):
            self._add(False, "consume", kind, bootstrap, TOPIC, str(PARTITIONS), name)

    def _add(self, produces: bool, program: str, *words: str) -> None:
        file = self._directory / f"history-{len(self.files)}.jsonl"
        self.files.append(file)
        self._commands.append((produces, [sys.executable, "-m", f"compat_tests.faults.{program}", *words, str(file)]))

    def __enter__(self) -> Clients:
        root = Path(__file__).resolve().parents[2]
        for produces, command in self._commands:
            log = (self._directory / "clients.log").open("ab")
            self._running.append((produces, subprocess.Popen(command, stdout=log, stderr=log, cwd=root)))
        return self

    def finish(self) -> None:
        """Ends and flushes the producers first, so that the consumers have read their records."""
        for produces in (True, False):
            ending = [process for kind, process in self._running if kind is produces]
            for process in ending:
                process.terminate()
            for process in ending:
                assert process.wait(SETTLE_S) == 0, (self._directory / "clients.log").read_text()

    def __exit__(self, *_: object) -> None:
        for _kind, process in self._running:
            if process.poll() is None:
                process.kill()
                process.wait()
