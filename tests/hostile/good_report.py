"""The good client's report, and its process in a test."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Time for the process to start, or to drain and report.
DEADLINE_S = 150


@dataclass
class GoodReport:
    """Counts of records; times in milliseconds since the last `mark`.

    `longest_wait_ms` is from sending an acks=1 produce request to its response, `longest_delivery_ms` to the record's
    arrival at the consumer. `own_delay_ms` is the largest delay of the client's own clock: the machine may have caused
    that much of the waits. `lost` records are acknowledged and not in the log, `unread` are acknowledged and not consumed.
    """

    sent: int = 0
    acknowledged: int = 0
    consumed: int = 0
    unanswered: int = 0
    reconnects: int = 0
    seconds: float = 0.0
    longest_wait_ms: float = 0.0
    p99_wait_ms: float = 0.0
    median_wait_ms: float = 0.0
    longest_delivery_ms: float = 0.0
    own_delay_ms: float = 0.0
    lost: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)

    def measure(self, waits: Sequence[float], deliveries: Sequence[float]) -> None:
        ordered = sorted(waits) or [0.0]
        self.longest_wait_ms = ordered[-1] * 1000
        self.p99_wait_ms = ordered[len(ordered) * 99 // 100] * 1000
        self.median_wait_ms = ordered[len(ordered) // 2] * 1000
        self.longest_delivery_ms = max(deliveries, default=0.0) * 1000

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        faults = {name: getattr(self, name)[:5] for name in ("lost", "unread", "doubled") if getattr(self, name)}
        return (
            f"longest wait {self.longest_wait_ms:.0f} ms, p99 {self.p99_wait_ms:.1f}, median {self.median_wait_ms:.1f},"
            f" delivery {self.longest_delivery_ms:.0f}, own delay {self.own_delay_ms:.0f}; {self.acknowledged} of"
            f" {self.sent} acknowledged in {self.seconds:.1f} s, {self.unanswered} unanswered,"
            f" {self.reconnects} reconnects, errors {self.errors or 'none'}, {faults or 'nothing lost or doubled'}"
        )


class GoodClient:
    """The process of a good client, ready on entry; `stop` ends it and returns its report."""

    def __init__(self, bootstrap: str, *, rate: float = 100, replicas: int = 1, topic: str | None = None) -> None:
        command = [sys.executable, "-m", "tests.hostile.good_client", "--bootstrap", bootstrap]
        command += ["--rate", str(rate), "--replicas", str(replicas)]
        if topic is not None:
            command += ["--topic", topic]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def await_ready(self) -> GoodClient:
        """Returns when the client has consumed its first records."""
        assert self._line() == "ready"
        return self

    def mark(self) -> GoodReport:
        """Returns the waits since the last mark, and the counts so far. Only `stop` counts lost records."""
        self._write("mark\n")
        return GoodReport(**json.loads(self._line()))

    def stop(self) -> GoodReport:
        self._write("stop\n")
        report = GoodReport(**json.loads(self._line()))
        self._process.wait(DEADLINE_S)
        return report

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())
        self._lines.put("")

    def _line(self) -> str:
        line = self._lines.get(timeout=DEADLINE_S)
        assert line, f"the good client ended with {self._process.wait(DEADLINE_S)}"
        return line

    def __enter__(self) -> GoodClient:
        try:
            return self.await_ready()
        except BaseException:
            self.kill()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
