"""Real broker processes under attack beside a good client, and the conditions that hold during and after each attack.

    with AttackTarget(folder, nodes=1) as room:
        room.run(attack).check()

An attack is a function of the target. It sends anything to `room.addresses` (each broker's port) or `room.controllers`
(each controller's port), and returns. Afterwards every node runs, no node has logged a bug, the good client has not waited
long, no acknowledged record is lost, unread or doubled, and memory is back near its former size.

Each `run` has its own good client, whose start and end take a second or two. After `keep_client` all attacks share one
client, and `check_records` checks its records at the end.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType

from odradek.protocol.messages.api_versions import ApiVersionsRequest

from compat_tests.broker_process import BrokerProcess, free_port
from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient
from tests.hostile.good_report import GoodClient, GoodReport
from tests.server.harness.cluster_process import COMBINED, Cluster

#: The product's limit on a quiet machine.
LONGEST_WAIT_MS = 250
#: The limit in CI: the machine is shared, and the attacker takes a core.
CI_LONGEST_WAIT_MS = float(os.environ.get("ODRADEK_HOSTILE_WAIT_MS", "1500"))
#: The limit of a wait during which the broker computed for less than the wait lasted; a busy machine causes such waits.
LONGEST_IDLE_WAIT_MS = 10_000
#: The largest ratio of memory after an attack to memory before it.
RSS_FACTOR = 1.2
#: The time for memory to return to that ratio.
RSS_DEADLINE_S = 60
#: Memory has settled when it has not fallen by this much for this long.
SETTLED_BYTES, SETTLED_S = 1 << 20, 8
#: A node is idle when it uses at most this much processor time in a window; the good client's requests take some.
REST_CPU_S, REST_WINDOW_S, REST_DEADLINE_S = 0.05, 0.25, 60
#: The time for a node to answer after an attack.
RESPONSE_DEADLINE_S = 60
#: The address space of a node: a broker that grows without bound fails alone, and the machine does not.
MOST_NODE_BYTES = 3 << 30
#: The time for a halting node to end.
HALT_S = 5
#: Log lines that report a defect of the broker.
BUG_LINES = ("a bug:", "Traceback (most recent call last)", "Task exception was never retrieved", "MemoryError")


def rss_bytes(pid: int) -> int:
    """Returns the resident memory of a process (RSS), or 0 when the process has ended."""
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
    """The result of an attack. Memory in bytes and CPU time in seconds are those of the node where they grew most."""

    name: str
    report: GoodReport
    rss_before: int
    rss_after: int
    attack_s: float
    broker_cpu_s: float
    faults: list[str] = field(default_factory=list)

    def violations(
        self, longest_wait_ms: float, *, rss_factor: float = RSS_FACTOR, rss_allowance: int = 0
    ) -> list[str]:
        """Returns a sentence for each condition that failed. `rss_allowance`: bytes on top of the factor.

        A wait counts without the client's own delay, and up to the broker's CPU time: other programs' use of the machine
        causes the rest.
        """
        found = list(self.faults)
        report = self.report
        for fate in ("lost", "unread", "doubled"):
            if numbers := getattr(report, fate):
                found.append(f"{len(numbers)} acknowledged records {fate}: {numbers[:5]}")
        if report.errors or report.unanswered:
            found.append(f"the good client got errors {report.errors}, {report.unanswered} requests unanswered")
        waited = report.longest_wait_ms - report.own_delay_ms
        stalled = min(waited, self.broker_cpu_s * 1000)
        if stalled > longest_wait_ms:
            found.append(f"the good client waited {waited:.0f} ms, more than {longest_wait_ms:.0f}")
        if waited > LONGEST_IDLE_WAIT_MS:
            found.append(f"the good client waited {waited:.0f} ms for a broker that did nothing")
        if self.rss_after > self.rss_before * rss_factor + rss_allowance:
            found.append(f"memory went from {self.rss_before >> 20} to {self.rss_after >> 20} MB")
        return found

    def check(
        self, longest_wait_ms: float = CI_LONGEST_WAIT_MS, *, rss_factor: float = RSS_FACTOR, rss_allowance: int = 0
    ) -> None:
        found = self.violations(longest_wait_ms, rss_factor=rss_factor, rss_allowance=rss_allowance)
        assert not found, f"{self}\n" + "\n".join(found)

    def __str__(self) -> str:
        report = self.report
        return (
            f"{self.name}: {self.attack_s:.1f} s, broker CPU {self.broker_cpu_s:.1f} s,"
            f" memory {self.rss_before >> 20} -> {self.rss_after >> 20} MB, longest wait {report.longest_wait_ms:.0f} ms,"
            f" p99 {report.p99_wait_ms:.1f}, median {report.median_wait_ms:.1f}, delivery"
            f" {report.longest_delivery_ms:.0f}, own delay {report.own_delay_ms:.0f}"
        )


class AttackTarget:
    """A broker or a cluster of three, and the good client beside it.

    `scale`: 1.0 is the size of attacks that the project promises to withstand. `properties` are the brokers' properties and
    override a test's defaults.
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
        """Returns every port: the brokers' and the controllers'."""
        return [*self.addresses, *self.controllers]

    def scaled(self, count: int) -> int:
        return max(1, int(count * self.scale))

    def __enter__(self) -> AttackTarget:
        try:
            self._start()
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

    def keep_client(self) -> None:
        """Starts one good client beside all attacks that follow."""
        self.client = GoodClient(self.bootstrap, replicas=min(3, len(self.nodes))).await_ready()

    def run(self, attack: Callable[[AttackTarget], None], *, rss_deadline_s: float = RSS_DEADLINE_S) -> Outcome:
        """Runs the attack beside the good client, and waits until memory is back or the time is up.

        If a node has ended, starts it again with a new client for the attacks that follow.
        """
        is_kept = self.client is not None
        if not is_kept:
            self.keep_client()
        assert self.client is not None
        self._await_rest()
        logs = [node.log_file.stat().st_size for node in self.nodes]
        before, cpu = self.memory(), self._cpu()
        self.client.mark()
        began = time.monotonic()
        faults = self._attack(attack)
        attack_s = time.monotonic() - began
        after = self._await_memory(before, rss_deadline_s)
        cpu_s = max(now - then for now, then in zip(self._cpu(), cpu, strict=True))
        faults += self.faults(logs)
        is_alive = all(node.is_running for node in self.nodes)
        report = self.client.mark() if is_kept or not is_alive else self.client.stop()
        worst = max(range(len(before)), key=lambda node: after[node] / before[node])
        if not is_alive:
            self._revive()
        if not is_kept:
            self.client.kill()
            self.client = None
        return Outcome(_name_of(attack), report, before[worst], after[worst], attack_s, cpu_s, faults)

    def check_records(self) -> GoodReport:
        """Stops the kept client. Raises AssertionError if an acknowledged record is lost, unread or doubled."""
        assert self.client is not None
        report = self.client.stop()
        self.client = None
        assert not (report.lost or report.unread or report.doubled), report
        return report

    def _attack(self, attack: Callable[[AttackTarget], None]) -> list[str]:
        """Runs the attack, then a request to each node. Returns sentences: the attack broke off, a node does not answer."""
        faults = []
        try:
            attack(self)
        except (OSError, EOFError) as error:
            faults.append(f"the attack could not go on: {error!r}")
        except AssertionError as error:
            faults.append(str(error))
        for node in self.nodes:
            try:
                with WireClient(node.bootstrap, timeout=RESPONSE_DEADLINE_S) as client:
                    client.call(ApiVersionsRequest("attack-room", "1"), 3)
            except (OSError, EOFError) as error:
                faults.append(f"{node.directory.name} does not answer: {error!r}")
                self._await_end(node)
                node.kill()
        return faults

    def _await_end(self, node: BrokerProcess) -> None:
        """Waits for the process of a halting node, which closes its ports first."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if node.process is not None:
                node.process.wait(HALT_S)

    def _start(self) -> None:
        if self._cluster is not None:
            self._cluster.start_all()
        else:
            self.nodes[0].start()
        for node in self.nodes:
            resource.prlimit(node.pid, resource.RLIMIT_AS, (MOST_NODE_BYTES, MOST_NODE_BYTES))

    def _revive(self) -> None:
        assert self.client is not None
        self.client.kill()
        for node in self.nodes:
            node.kill()
        self._start()
        self.keep_client()

    def faults(self, since: list[int] | None = None) -> list[str]:
        """Returns sentences: nodes that ended, and log lines after these positions that report a bug."""
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

    def settled_memory(self) -> list[int]:
        """Returns `memory` once it no longer falls: a broker gives memory back for some ten seconds."""
        deadline = time.monotonic() + RSS_DEADLINE_S
        least, since = sum(self.memory()), time.monotonic()
        while time.monotonic() < min(deadline, since + SETTLED_S):
            time.sleep(REST_WINDOW_S)
            if (now := sum(self.memory())) < least - SETTLED_BYTES:
                least, since = now, time.monotonic()
        return self.memory()

    def _cpu(self) -> list[float]:
        return [cpu_seconds(node.pid) if node.is_running else 0.0 for node in self.nodes]

    def memory(self) -> list[int]:
        """Returns the resident memory of every node, in bytes."""
        return [rss_bytes(node.pid) if node.is_running else 0 for node in self.nodes]

    def _await_rest(self) -> None:
        """Waits until the nodes are idle: topics and members of the last attack must not count as memory of the next one."""
        deadline, used = time.monotonic() + REST_DEADLINE_S, self._cpu()
        while time.monotonic() < deadline:
            time.sleep(REST_WINDOW_S)
            now = self._cpu()
            if max(after - before for after, before in zip(now, used, strict=True)) <= REST_CPU_S:
                return
            used = now

    def _await_memory(self, before: list[int], deadline_s: float) -> list[int]:
        deadline = time.monotonic() + deadline_s
        while True:
            after = self.memory()
            near = all(now <= then * RSS_FACTOR for now, then in zip(after, before, strict=True))
            if near or time.monotonic() > deadline:
                return after
            time.sleep(0.05)


def _name_of(attack: Callable[[AttackTarget], None]) -> str:
    return attack.func.__name__ if isinstance(attack, partial) else attack.__name__
