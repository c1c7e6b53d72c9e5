"""Real broker processes with a good client beside attacks, and what must hold during and after them.

    with AttackRoom(folder, nodes=1) as room:
        outcome = room.run(attack)
        outcome.check()
    room.check_records()

An attack is a function of the room: it sends what it likes to `room.addresses` (each broker's port) or `room.controllers`
(each controller's port), and returns. Then every node must run, no node may have logged a bug, the good client may not have
waited long, and memory must be back near what it was. `check_records` stops the good client: nothing that was acknowledged
may be lost, unread or doubled.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from odradek.protocol.messages.api_versions import ApiVersionsRequest

from compat_tests.broker_process import BrokerProcess, free_port
from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient
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
#: The time in which a node has to answer after an attack.
ANSWER_DEADLINE_S = 20
#: What a node may map: a broker that grows without bound fails by itself, not with the machine.
MOST_NODE_BYTES = 3 << 30
#: The time that a node that halts may take.
HALT_S = 5
#: Lines of a log that tell of a defect of the broker.
BUG_LINES = ("a bug:", "Traceback (most recent call last)", "Task exception was never retrieved", "MemoryError")


def rss_bytes(pid: int) -> int:
    """The resident memory of a process (RSS); 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
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
        if report.errors or report.unanswered:
            found.append(f"the good client got errors {report.errors}, {report.unanswered} requests unanswered")
        waited = report.longest_wait_ms - report.own_delay_ms
        if waited > longest_wait_ms:
            found.append(f"the good client waited {waited:.0f} ms, more than {longest_wait_ms:.0f}")
        if self.rss_after > self.rss_before * rss_factor:
            found.append(f"memory went from {self.rss_before >> 20} to {self.rss_after >> 20} MB")
        return found

    def check(self, longest_wait_ms: float = CI_LONGEST_WAIT_MS, *, rss_factor: float = RSS_FACTOR) -> None:
        found = self.violations(longest_wait_ms, rss_factor=rss_factor)
        assert not found, f"{self}\n" + "\n".join(found)

    def __str__(self) -> str:
        report = self.report
        return (
            f"{self.name}: {self.attack_s:.1f} s, broker CPU {self.broker_cpu_s:.1f} s,"
            f" memory {self.rss_before >> 20} -> {self.rss_after >> 20} MB, longest wait {report.longest_wait_ms:.0f} ms,"
            f" p99 {report.p99_wait_ms:.1f}, median {report.median_wait_ms:.1f}, delivery"
            f" {report.longest_delivery_ms:.0f}, own delay {report.own_delay_ms:.0f}"
        )


class AttackRoom:
    """One broker, or a cluster of three, and the good client of both.

    `scale`: 1.0 is the size of attacks that the project promises to withstand. `properties` are the brokers', over the
    defaults of a test.
    """

    def __init__(self, directory: Path, nodes: int = 1, *, scale: float = 1.0, **properties: str) -> None:
        self.directory = directory
        self.scale = scale
        self._properties = {key.replace("_", "."): value for key, value in properties.items()}
        self._cluster: Cluster | None = None
        self.client: GoodClient | None = None
        self.nodes: list[BrokerProcess]
        self.controllers: list[str]
        if nodes == 1:
            controller, broker = free_port(), free_port()
            single = {
                "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
                "controller.listener.names": "CONTROLLER",
                "group.initial.rebalance.delay.ms": "0",
            }
            self.nodes = [OdradekProcess(directory / "node", single | self._properties)]
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

    def scaled(self, count: int) -> int:
        return max(1, int(count * self.scale))

    def __enter__(self) -> AttackRoom:
        try:
            if self._cluster is not None:
                self._cluster.start_all()
            else:
                self.nodes[0].start()
            self._start_client()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.client is not None:
            self.client.kill()
        for node in self.nodes:
            node.kill()

    def run(self, attack: Callable[[AttackRoom], None], *, rss_deadline_s: float = RSS_DEADLINE_S) -> Outcome:
        """Runs the attack beside the good client, and waits until memory is back or the time is up.

        Where a node has ended it is started again, with a new client, for the attacks that follow.
        """
        assert self.client is not None
        name = getattr(attack, "__name__", None) or attack.func.__name__  # type: ignore[attr-defined]
        logs = [node.log_file.stat().st_size for node in self.nodes]
        before, cpu = self._memory(), self._cpu()
        self.client.mark()
        began = time.monotonic()
        faults = self._attack(attack)
        attack_s = time.monotonic() - began
        after = self._await_memory(before, rss_deadline_s)
        cpu_s = self._cpu() - cpu
        report = self.client.mark()
        worst = max(range(len(before)), key=lambda node: after[node] / before[node])
        faults += self._faults(logs)
        outcome = Outcome(name, report, before[worst], after[worst], attack_s, cpu_s, faults)
        if not all(node.is_running for node in self.nodes):
            self._revive()
        return outcome

    def _attack(self, attack: Callable[[AttackRoom], None]) -> list[str]:
        """Returns when every node answers, or has ended; sentences when an attack could not be ended or one does not."""
        faults = []
        try:
            attack(self)
        except (OSError, EOFError) as error:
            faults.append(f"the attack could not go on: {error!r}")
        for node in self.nodes:
            try:
                with WireClient(node.bootstrap, timeout=ANSWER_DEADLINE_S) as client:
                    client.call(ApiVersionsRequest("attack-room", "1"), 3)
            except (OSError, EOFError) as error:
                faults.append(f"{node.directory.name} does not answer: {error!r}")
                self._await_end(node)
                node.kill()
        return faults

    def _await_end(self, node: BrokerProcess) -> None:
        """A node that halts closes its ports before its process is gone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert node.process is not None
            node.process.wait(HALT_S)

    def check_records(self) -> GoodReport:
        """Stops the good client. Raises AssertionError where something that was acknowledged is lost, unread or doubled."""
        assert self.client is not None
        report = self.client.stop()
        self.client = None
        assert not (report.lost or report.unread or report.doubled), report
        return report

    def _start_client(self) -> None:
        for node in self.nodes:
            resource.prlimit(node.pid, resource.RLIMIT_AS, (MOST_NODE_BYTES, MOST_NODE_BYTES))
        self.client = GoodClient(self.bootstrap, replicas=min(3, len(self.nodes)))
        self.client.await_ready()

    def _revive(self) -> None:
        assert self.client is not None
        self.client.kill()
        for node in self.nodes:
            node.kill()
        if self._cluster is not None:
            self._cluster.start_all()
        else:
            self.nodes[0].start()
        self._start_client()

    def _faults(self, since: list[int]) -> list[str]:
        """Sentences: nodes that ended, and lines of the logs behind these positions that tell of a bug."""
        found = []
        for node, position in zip(self.nodes, since, strict=True):
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
        return sum(cpu_seconds(node.pid) for node in self.nodes if node.is_running)

    def _memory(self) -> list[int]:
        return [rss_bytes(node.pid) if node.is_running else 0 for node in self.nodes]

    def _await_memory(self, before: list[int], deadline_s: float) -> list[int]:
        deadline = time.monotonic() + deadline_s
        while True:
            after = self._memory()
            near = all(now <= then * RSS_FACTOR for now, then in zip(after, before, strict=True))
            if near or time.monotonic() > deadline:
                return after
            time.sleep(0.05)
