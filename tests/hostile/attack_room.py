"""Real broker processes with a good client beside an attack, and what must hold during and after it.

    with AttackRoom(folder, nodes=1) as room:
        outcome = room.run(attack)
        outcome.check()

An attack is a function of the room: it sends what it likes to `room.bootstrap`, `room.addresses` (each broker's port) or
`room.controllers` (each controller's port), and returns. Afterwards every node must run, no node may have logged a bug,
the good client may not have waited long, nothing acknowledged is lost, and memory is back near what it was.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from compat_tests.broker_process import BrokerProcess, free_port
from compat_tests.odradek_process import OdradekProcess
from tests.hostile.good_report import GoodClient, GoodReport
from tests.server.cluster_process import COMBINED, Cluster

#: The product's figure on a quiet machine.
LONGEST_WAIT_MS = 250
#: What a test in CI asserts: its machine is shared, and the attacker itself takes a core.
CI_LONGEST_WAIT_MS = float(os.environ.get("ODRADEK_HOSTILE_WAIT_MS", "1500"))
#: Memory after an attack over that of before.
RSS_FACTOR = 1.2
#: The time in which memory has to come back.
RSS_DEADLINE_S = 30
#: Lines of a log that tell of a defect of the broker.
BUG_LINES = ("a bug:", "Traceback (most recent call last)", "Task exception was never retrieved", "MemoryError")
#: A quiet stretch before each attack: the first requests of a broker load modules.
SETTLE_S = 1.0


def rss_bytes(pid: int) -> int:
    """The resident memory of a process (RSS)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Outcome:
    """What an attack did. Sizes in bytes, of the node where they grew most."""

    name: str
    report: GoodReport
    rss_before: int
    rss_after: int
    attack_s: float
    broker_cpu_s: float
    faults: list[str] = field(default_factory=list)

    def violations(self, longest_wait_ms: float, *, rss_factor: float = RSS_FACTOR) -> list[str]:
        """Sentences, one for each thing that should have held. The client's own delay is not the broker's."""
        found = list(self.faults)
        report = self.report
        for name in ("lost", "unread", "doubled"):
            if numbers := getattr(report, name):
                found.append(f"{len(numbers)} acknowledged records {name}: {numbers[:5]}")
        if report.errors or report.unanswered:
            found.append(f"the good client got errors {report.errors}, {report.unanswered} requests unanswered")
        waited = report.longest_wait_ms - report.own_delay_ms
        if waited > longest_wait_ms:
            found.append(f"the good client waited {waited:.0f} ms, more than {longest_wait_ms:.0f}")
        if self.rss_after > self.rss_before * rss_factor:
            found.append(f"memory went from {self.rss_before >> 20} to {self.rss_after >> 20} MB")
        return found

    def check(self, longest_wait_ms: float = CI_LONGEST_WAIT_MS, *, rss_factor: float = RSS_FACTOR) -> None:
        print(self)
        found = self.violations(longest_wait_ms, rss_factor=rss_factor)
        assert not found, f"{self}\n" + "\n".join(found)

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.attack_s:.1f} s, broker CPU {self.broker_cpu_s:.1f} s, memory {self.rss_before >> 20}"
            f" -> {self.rss_after >> 20} MB; {self.report}"
        )


class AttackRoom:
    """One broker, or a cluster of three. `properties` are the brokers', over the defaults of a test."""

    def __init__(self, directory: Path, nodes: int = 1, **properties: str) -> None:
        self.directory = directory
        self._properties = {key.replace("_", "."): value for key, value in properties.items()}
        self._cluster: Cluster | None = None
        self.nodes: list[BrokerProcess]
        self.controllers: list[str]
        if nodes == 1:
            controller, broker = free_port(), free_port()
            self._properties |= {
                "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
                "controller.listener.names": "CONTROLLER",
                "group.initial.rebalance.delay.ms": "0",
            }
            self.nodes = [OdradekProcess(directory / "node", self._properties)]
            self.controllers = [f"127.0.0.1:{controller}"]
        else:
            self._cluster = Cluster(directory, [COMBINED] * nodes, **self._properties)
            self.nodes = list(self._cluster.nodes.values())
            self.controllers = [f"127.0.0.1:{port}" for port in self._cluster.controller_ports.values()]

    @property
    def addresses(self) -> list[str]:
        return [node.bootstrap for node in self.nodes]

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses)

    @property
    def targets(self) -> list[str]:
        """Every port: the brokers' and the controllers'."""
        return [*self.addresses, *self.controllers]

    def __enter__(self) -> AttackRoom:
        if self._cluster is not None:
            self._cluster.__enter__()
        else:
            self.nodes[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes:
            node.kill()

    def run(
        self, attack: Callable[[AttackRoom], None], *, name: str | None = None, rss_deadline_s: float = RSS_DEADLINE_S
    ) -> Outcome:
        """Runs the attack beside a good client of its own, and waits until memory is back or the time is up."""
        name = name or attack.__name__
        logs = [node.log_file.stat().st_size for node in self.nodes]
        replicas = min(3, len(self.nodes))
        with GoodClient(self.bootstrap, replicas=replicas) as client:
            time.sleep(SETTLE_S)
            before = [rss_bytes(node.pid) for node in self.nodes]
            cpu = self._cpu()
            client.mark()
            began = time.monotonic()
            attack(self)
            attack_s = time.monotonic() - began
            if not all(node.is_running for node in self.nodes):
                client.kill()
                return Outcome(name, GoodReport(), 0, 0, attack_s, 0.0, self.faults(logs))
            after = self._await_memory(before, rss_deadline_s)
            cpu_s = self._cpu() - cpu
            report = client.stop()
        worst = max(range(len(before)), key=lambda node: after[node] / before[node])
        return Outcome(name, report, before[worst], after[worst], attack_s, cpu_s, self.faults(logs))

    def faults(self, since: Iterable[int] | None = None) -> list[str]:
        """Sentences: nodes that ended, and lines of the logs behind these positions that tell of a bug."""
        found = []
        for node, position in zip(self.nodes, since or [0] * len(self.nodes), strict=True):
            if not node.is_running:
                found.append(f"{node.directory.name} ended:\n{node.last_words(20)}")
            with node.log_file.open("rb") as log:
                log.seek(position)
                lines = log.read().decode(errors="replace").splitlines()
            bugs = [number for number, line in enumerate(lines) if any(words in line for words in BUG_LINES)]
            if bugs:
                shown = "\n".join(line[:300] for line in lines[bugs[0] : bugs[0] + 25])
                found.append(f"{node.directory.name} logged {len(bugs)} bug lines:\n{shown}")
        return found

    def _cpu(self) -> float:
        return sum(cpu_seconds(node.pid) for node in self.nodes)

    def _await_memory(self, before: list[int], deadline_s: float) -> list[int]:
        deadline = time.monotonic() + deadline_s
        while True:
            after = [rss_bytes(node.pid) for node in self.nodes]
            near = all(now <= then * RSS_FACTOR for now, then in zip(after, before, strict=True))
            if near or time.monotonic() > deadline:
                return after
            time.sleep(0.05)
